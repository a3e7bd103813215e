import type { Socket } from 'node:net';
import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import { noAgentLine, UnavailableAgent } from '@gpg-bridge/core/assuan/unavailable-agent';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { leaveViews, takeViews } from '@gpg-bridge/core/io/view-source';
import type { LogCallback } from '@gpg-bridge/core/log';
import { pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import type { Journal, Watched } from './journal.ts';

/** How long the agent may take to greet. */
const GREETING_TIMEOUT_MS = 5_000;
/** What every greeting begins with; the words behind it differ between agents. */
const GREETING_START = Buffer.from('OK');
/** What a connection to an agent that is just going away ends with. */
const CLOSED_EARLY: ReadonlySet<string> = new Set(['AGENT_CLOSED', 'AGENT_NONCE_REFUSED']);

/** Joins one client's stream with a connection of its own to the host's gpg-agent. */
export function serveGpgStream(
  stream: MuxStream,
  agent: HostGpgAgent,
  journal: Journal,
  log: LogCallback,
): void {
  const socket = agent.connectNow();
  if (!socket) {
    void serveWithPatience(stream, agent, journal, log);
    return;
  }
  // The usual case, without a promise on its way; whatever goes wrong is looked into the other way.
  awaitGreeting(socket, {
    greeted: (greeting) => join(stream, socket, greeting, journal),
    refused: (error) => answerUnavailable(stream, error, log),
    closed: () => void serveWithPatience(stream, agent, journal, log),
  });
}

/** The same for an agent that has to be found, started or waited for first. */
async function serveWithPatience(
  stream: MuxStream,
  agent: HostGpgAgent,
  journal: Journal,
  log: LogCallback,
): Promise<void> {
  for (const lastTry of [false, true]) {
    try {
      const connection = await agent.connect();
      await new Promise<void>((resolve, reject) => {
        awaitGreeting(connection.socket, {
          greeted(greeting) {
            join(stream, connection.socket, greeting, journal);
            resolve();
          },
          refused: reject,
          closed: (cause) => reject(connection.earlyCloseError(cause)),
        });
        if (connection.preamble.length > 0) connection.socket.write(connection.preamble);
      });
      return;
    } catch (error) {
      const failure = toBridgeError(error, "can't connect to the host's gpg-agent");
      // The kernel still takes connections for an agent that is dying; the next one finds or starts another.
      if (!lastTry && CLOSED_EARLY.has(failure.code)) continue;
      answerUnavailable(stream, failure, log);
      return;
    }
  }
}

/** What can become of a new connection; one of them is called, once. */
interface GreetingOutcome {
  /** The agent wants to talk; the bytes are valid during the call, and nothing that follows is missed. */
  greeted(greeting: Buffer): void;
  /** It does not, or said nothing in time. */
  refused(error: BridgeError): void;
  /** It could not be connected to, or closed before it said anything. */
  closed(cause: Error | undefined): void;
}

/** Waits for the first bytes of an agent, which say whether it is one that wants to talk. */
function awaitGreeting(socket: Socket, outcome: GreetingOutcome): void {
  let received: Buffer | undefined;
  let cause: Error | undefined;
  const settle = () => {
    clearTimeout(timer);
    socket.off('error', onError).off('close', onClose);
    leaveViews(socket, onBytes);
  };
  const refuse = (error: BridgeError) => {
    settle();
    socket.on('error', () => {}).destroy();
    outcome.refused(error);
  };
  const onError = (error: Error) => {
    cause = error; // `close` follows
  };
  const onClose = () => {
    settle();
    outcome.closed(cause);
  };
  const onBytes = (view: Buffer) => {
    const greeting = received ? Buffer.concat([received, view]) : view;
    if (greeting.length < GREETING_START.length) {
      received = Buffer.from(greeting);
    } else if (GREETING_START.compare(greeting, 0, GREETING_START.length) === 0) {
      settle();
      outcome.greeted(greeting);
    } else {
      refuse(badGreeting());
    }
  };
  const timer = setTimeout(() => refuse(noGreeting()), GREETING_TIMEOUT_MS);
  socket.on('error', onError).on('close', onClose);
  takeViews(socket, onBytes);
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
function join(stream: MuxStream, socket: Socket, greeting: Buffer, journal: Journal): void {
  if (!stream.open) {
    socket.destroy(); // the client left meanwhile
    return;
  }
  const observer = new AssuanObserver((operation) => journal.operation(stream.id, operation));
  const watched: Watched = { pending: () => observer.pending };
  journal.begin(watched);
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
      // gpg would only say "End of file"; this names what happened.
      if (observer.owed) out.toStream(noAgentLine("the host's gpg-agent closed the connection"));
    },
    onEnd() {
      observer.end();
      journal.end(watched);
    },
  });
}

/** Answers in place of an unavailable agent: closing at once would make gpg start its own. */
function answerUnavailable(stream: MuxStream, failure: BridgeError, log: LogCallback): void {
  log(`a client was told that the host's gpg-agent can't be had: ${failure.message}`, 'warn');
  if (!stream.open) return;
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
