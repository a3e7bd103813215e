import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import { noAgentLine, StandInAgent } from '@gpg-bridge/core/assuan/stand-in';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { AgentConnection } from '@gpg-bridge/core/host/connect';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import { pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import type { Journal, Watched } from './journal.ts';

/** How long the agent may take to greet. */
const GREETING_TIMEOUT_MS = 5_000;

/** Joins one client's stream with a connection of its own to the host's gpg-agent. */
export async function serveGpgStream(
  stream: MuxStream,
  agent: HostGpgAgent,
  journal: Journal,
  log: LogCallback,
): Promise<void> {
  try {
    const connection = await agent.connect();
    if (!stream.open) connection.socket.destroy();
    else whenGreeted(connection, (greeting) => join(stream, connection, greeting, journal), refuse);
  } catch (error) {
    refuse(toBridgeError(error, "can't connect to the host's gpg-agent"));
  }

  function refuse(error: BridgeError): void {
    log(`a client was told that the host's gpg-agent can't be had: ${error.message}`, 'warn');
    standIn(stream, error.message);
  }
}

/** Waits for the first bytes, which say whether this is an agent that wants to talk. */
function whenGreeted(
  connection: AgentConnection,
  greeted: (bytes: Buffer) => void,
  refused: (error: BridgeError) => void,
): void {
  const { socket } = connection;
  let greeting: Buffer = Buffer.alloc(0);
  let cause: Error | undefined;
  const timer = setTimeout(() => {
    cause = new Error(`no greeting within ${GREETING_TIMEOUT_MS} ms`);
    socket.destroy();
  }, GREETING_TIMEOUT_MS);
  const onError = (error: Error) => {
    cause = error;
  };
  const onClose = () => {
    clearTimeout(timer);
    refused(connection.earlyCloseError(cause));
  };
  const onData = (bytes: Buffer) => {
    greeting = greeting.length === 0 ? bytes : Buffer.concat([greeting, bytes]);
    if (greeting.length < 2) return;
    clearTimeout(timer);
    socket.off('error', onError).off('close', onClose).off('data', onData);
    if (greeting.subarray(0, 2).toString('latin1') === 'OK') {
      greeted(greeting);
      return;
    }
    socket.on('error', () => {}).destroy();
    refused(
      new BridgeError('BAD_GREETING', {
        what: "the host's gpg-agent refused the connection",
        why: 'its first line is not a greeting',
        fix: 'Restart it with `gpgconf --kill gpg-agent` and try again.',
      }),
    );
  };
  socket.on('error', onError).on('close', onClose).on('data', onData);
  if (connection.preamble.length > 0) socket.write(connection.preamble);
}

/** The hot path: bytes go through as they are, and the observer looks on. */
function join(stream: MuxStream, connection: AgentConnection, greeting: Buffer, journal: Journal): void {
  const observer = new AssuanObserver((operation) => journal.operation(stream.id, operation));
  const watched: Watched = { pending: () => observer.pending };
  journal.begin(watched);
  observer.fromAgent(greeting);
  stream.send(greeting);
  pipeSocket(stream, connection.socket, {
    fromStream(bytes, out) {
      observer.fromClient(bytes);
      out.toSocket(bytes);
    },
    fromSocket(bytes, out) {
      observer.fromAgent(bytes);
      out.toStream(bytes);
    },
    onSocketEnd(_error, out) {
      // gpg would only say "End of file"; this names what happened.
      if (observer.owed) out.toStream(noAgentLine("the host's gpg-agent closed the connection"));
    },
    onEnd() {
      observer.end();
      journal.end(watched);
    },
  });
}

/** Answers in place of an agent that can't be had: closing at once would make gpg start its own. */
function standIn(stream: MuxStream, reason: string): void {
  if (!stream.open) return;
  const agent = new StandInAgent(reason);
  stream.send(agent.greeting);
  stream.attach({
    take(bytes) {
      const answer = agent.answer(bytes);
      const taken = answer.length === 0 || stream.send(answer);
      if (agent.ended) stream.finish();
      return taken;
    },
    drained: () => stream.resumeDelivery(),
    ended: () => {},
  });
}
