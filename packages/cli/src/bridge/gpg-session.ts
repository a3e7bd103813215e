import type { Socket } from 'node:net';
import { CommandGate } from '@gpg-bridge/core/assuan/command-gate';
import { noAgentLine, UnavailableAgent } from '@gpg-bridge/core/assuan/unavailable-agent';
import type { BridgeError } from '@gpg-bridge/core/errors';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import { KeyUseRules } from '@gpg-bridge/core/host/key-use-rules';
import type { LogCallback } from '@gpg-bridge/core/log';
import { type Outlets, pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import type { ConnectionLimit } from './connection-limit.ts';
import type { Journal } from './journal.ts';

const LF = Buffer.from('\n');

/** What all sessions of a bridge with the host's gpg-agent share. */
export interface GpgService {
  agent: HostGpgAgent;
  connections: ConnectionLimit;
  use: TargetUse;
  journal: Journal;
  log: LogCallback;
}

/** Joins one client's stream with a connection of its own to the host's gpg-agent, when there is room for it. */
export function serveGpgStream(stream: MuxStream, service: GpgService): void {
  const opening = new AbortController();
  const stopWaiting = service.connections.enter((leave) => {
    opening.signal.addEventListener('abort', leave);
    service.agent.open(
      {
        opened: ({ socket, greeting }) => join(stream, socket, greeting, service, leave),
        failed(error) {
          leave();
          answerUnavailable(stream, error, service.log);
        },
      },
      opening.signal,
    );
  });
  // A client that leaves before its turn, or before the agent greets, keeps no connection.
  stream.onAbandoned(() => {
    stopWaiting();
    opening.abort();
    stream.discard();
  });
}

/** Passes bytes both ways through a gate that gives the agent one command at a time. */
function join(
  stream: MuxStream,
  socket: Socket,
  greeting: Buffer,
  { use, journal }: GpgService,
  leave: () => void,
): void {
  let out: Outlets | undefined;
  const rules = new KeyUseRules(use, (operation) => journal.operation(stream.id, operation), stream.id);
  const gate = new CommandGate(rules, {
    toAgent: (bytes) => out?.toSocket(bytes),
    toClient: (bytes) => out?.toStream(bytes),
    endAgent: () => out?.endSocket(),
    resume: () => out?.resumeStream(),
  });
  journal.begin(gate);
  pipeSocket(stream, socket, {
    onStart(outlets) {
      out = outlets;
      gate.fromAgent(greeting);
    },
    fromStream: (bytes) => gate.fromClient(bytes),
    onStreamEof: () => gate.clientEnded(),
    fromSocket: (bytes) => gate.fromAgent(bytes),
    onSocketEnd(_error, outlets) {
      // Behind half a line it would become a part of that, and an OK whose end is missing would count as one.
      if (!gate.owed || gate.pending?.command === 'BYE' || gate.halfSaid === 'line') return;
      if (gate.halfSaid === 'data') outlets.toStream(LF);
      // Without this line gpg reports only "End of file".
      outlets.toStream(noAgentLine("the host's gpg-agent closed the connection"));
    },
    onEnd() {
      gate.end();
      journal.end(gate);
      leave();
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
