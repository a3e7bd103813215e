import type { Socket } from 'node:net';
import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import { noAgentLine, UnavailableAgent } from '@gpg-bridge/core/assuan/unavailable-agent';
import type { BridgeError } from '@gpg-bridge/core/errors';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import { pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import type { Journal } from './journal.ts';

const LF = Buffer.from('\n');

/** Joins one client's stream with a connection of its own to the host's gpg-agent. */
export function serveGpgStream(
  stream: MuxStream,
  agent: HostGpgAgent,
  journal: Journal,
  log: LogCallback,
): void {
  agent.open({
    opened: ({ socket, greeting }) => join(stream, socket, greeting, journal),
    failed: (error) => answerUnavailable(stream, error, log),
  });
}

/** Passes bytes both ways, unchanged, and shows them to an observer. */
function join(stream: MuxStream, socket: Socket, greeting: Buffer, journal: Journal): void {
  if (!stream.open) {
    socket.destroy();
    stream.discard(); // the client left meanwhile, and what it sent goes nowhere
    return;
  }
  const observer = new AssuanObserver((operation) => journal.operation(stream.id, operation));
  journal.begin(observer);
  observer.fromAgent(greeting);
  stream.send(greeting);
  pipeSocket(stream, socket, {
    fromStream(bytes, out) {
      observer.fromClient(bytes);
      out.toSocket(bytes);
    },
    fromSocket(bytes, out) {
      observer.fromAgent(bytes);
      out.toStream(bytes);
    },
    onSocketEnd(_error, out) {
      // Behind half a line it would become a part of that, and an OK whose end is missing would count as one.
      if (!observer.owed || observer.halfSaid === 'line') return;
      if (observer.halfSaid === 'data') out.toStream(LF);
      // Without this line gpg reports only "End of file".
      out.toStream(noAgentLine("the host's gpg-agent closed the connection"));
    },
    onEnd() {
      observer.end();
      journal.end(observer);
    },
  });
}

/** Answers in place of an unavailable agent: closing at once would make gpg start its own. */
function answerUnavailable(stream: MuxStream, failure: BridgeError, log: LogCallback): void {
  log(`a client was told that the host's gpg-agent can't be had: ${failure.message}`, 'warn');
  if (!stream.open) {
    stream.discard();
    return;
  }
  const agent = new UnavailableAgent(failure.message);
  stream.send(agent.greeting);
  stream.attach({
    take(bytes) {
      const answer = agent.answer(bytes);
      const taken = answer.length === 0 || stream.send(answer);
      if (agent.ended) stream.finish();
      return taken;
    },
    drained: () => stream.resumeDelivery(),
    eof: () => stream.finish(),
    ended: () => {},
  });
}
