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
/** What a connection to an agent that is just going away ends with. */
const CLOSED_EARLY: ReadonlySet<string> = new Set(['AGENT_CLOSED', 'AGENT_NONCE_REFUSED']);

/** Joins one client's stream with a connection of its own to the host's gpg-agent. */
export async function serveGpgStream(
  stream: MuxStream,
  agent: HostGpgAgent,
  journal: Journal,
  log: LogCallback,
): Promise<void> {
  for (const lastTry of [false, true]) {
    try {
      const connection = await agent.connect();
      const greeting = await greetingOf(connection);
      if (stream.open) join(stream, connection, greeting, journal);
      else connection.socket.destroy();
      return;
    } catch (error) {
      const failure = toBridgeError(error, "can't connect to the host's gpg-agent");
      // The kernel still takes connections for an agent that is dying; the next one finds or starts another.
      if (!lastTry && CLOSED_EARLY.has(failure.code)) continue;
      log(`a client was told that the host's gpg-agent can't be had: ${failure.message}`, 'warn');
      standIn(stream, failure.message);
      return;
    }
  }
}

/**
 * Waits for the first bytes, which say whether this is an agent that wants to talk. The caller listens to
 * the socket in the same turn of the event loop, so nothing that follows is missed.
 */
function greetingOf(connection: AgentConnection): Promise<Buffer> {
  const { socket, preamble } = connection;
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    let cause: Error | undefined;
    const settle = (settled: () => void) => {
      clearTimeout(timer);
      socket.off('error', onError).off('close', onClose).off('data', onData);
      settled();
    };
    const refuse = (error: BridgeError) =>
      settle(() => {
        socket.on('error', () => {}).destroy();
        reject(error);
      });
    const onError = (error: Error) => {
      cause = error; // `close` follows
    };
    const onClose = () => refuse(connection.earlyCloseError(cause));
    const onData = (bytes: Buffer) => {
      received.push(bytes);
      const greeting = Buffer.concat(received);
      if (greeting.length < 2) return;
      if (greeting.toString('latin1', 0, 2) !== 'OK') refuse(badGreeting());
      else settle(() => resolve(greeting));
    };
    const timer = setTimeout(() => refuse(noGreeting()), GREETING_TIMEOUT_MS);
    socket.on('error', onError).on('close', onClose).on('data', onData);
    if (preamble.length > 0) socket.write(preamble);
  });
}

function badGreeting(): BridgeError {
  return new BridgeError('BAD_GREETING', {
    what: "the host's gpg-agent refused the connection",
    why: 'its first line is not a greeting',
    fix: 'Restart it with `gpgconf --kill gpg-agent` and try again.',
  });
}

function noGreeting(): BridgeError {
  return new BridgeError('AGENT_GREETING_TIMEOUT', {
    what: "the host's gpg-agent did not greet",
    why: `nothing came within ${GREETING_TIMEOUT_MS} ms of connecting`,
    fix: 'Restart it with `gpgconf --kill gpg-agent` and try again.',
  });
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
