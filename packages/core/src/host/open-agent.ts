import type { Socket } from 'node:net';
import type { Block } from '../assuan/block-scanner.ts';
import { awaitGreeting } from '../assuan/greeting.ts';
import { BridgeError, type ErrorCode, toBridgeError } from '../errors.ts';
import type { LogCallback } from '../log.ts';
import type { AgentConnection } from './connect.ts';
import type { GivingUp } from './giving-up.ts';

/** A connection to the host's gpg-agent that has greeted. */
export interface OpenedAgent {
  readonly socket: Socket;
  /** All that the agent has sent so far: its greeting and whatever came with it. */
  readonly greeting: Buffer;
  /** How much of that is the greeting itself; all of it, unless said. */
  readonly greetingLength?: number;
  /** The answers to questions that were asked before it greeted. */
  readonly answers?: readonly Block[];
  /** Which agent it is, where that was asked. */
  readonly identity?: AgentIdentity;
}

/** Lines that a connection is asked before anything else, and that no agent asks anything back to. */
export interface FirstQuestions {
  readonly bytes: Buffer;
  readonly count: number;
}

/** An agent as a connection to it shows: another one may answer in another way. */
export interface AgentIdentity {
  /** What it answers to `GETINFO version`, as it is. */
  version: string;
  /** The socket or socket file that it made; one that is started again makes another. */
  socket: string;
}

/** What can become of an attempt to open a connection; exactly one is called, once. */
export interface OpenOutcome {
  /** A consumer that attaches itself to the socket during the call misses nothing that follows. */
  opened(agent: OpenedAgent): void;
  failed(error: BridgeError): void;
}

/** How a connection is opened. */
export interface OpenOptions {
  greetingTimeoutMs?: number | undefined;
  log?: LogCallback | undefined;
  /** How many lines it was asked that are answered behind the greeting, and waited for. */
  questions?: number | undefined;
  /** How long these may take; as long as the greeting, unless said. */
  answersMs?: number | undefined;
  /** Gives up: neither outcome is called after it, and the connection is ended. */
  signal?: GivingUp | undefined;
}

/** Whether an agent is reached over TCP, as on Windows: its answers come in pieces, see `CommandGate.hurry`. */
export function answersInPieces(socket: Socket): boolean {
  return socket.remoteFamily !== undefined;
}

/** Opens connections, each with one call of its outcome. */
export type OpenAgent = (outcome: OpenOutcome, signal?: GivingUp, questions?: FirstQuestions) => void;

const HOST_AGENT = "the host's gpg-agent";

/**
 * What connecting to an agent that is just ending looks like: the kernel still accepts for it, or its socket
 * file still names a port. The next attempt finds it gone and starts it again.
 */
const ENDING_CODES: ReadonlySet<ErrorCode> = new Set(['AGENT_CLOSED', 'AGENT_NONCE_REFUSED']);

/** Connects and waits for the greeting; once more if the agent was just ending. */
export function openAgent(
  connect: () => Promise<AgentConnection>,
  outcome: OpenOutcome,
  options: OpenOptions = {},
): void {
  const first: OpenOutcome = {
    opened: (agent) => outcome.opened(agent),
    failed(error) {
      if (!isEnding(error)) {
        outcome.failed(error);
        return;
      }
      options.log?.(`${error.what}: trying once more`, 'info');
      openOnce(connect, outcome, options);
    },
  };
  openOnce(connect, first, options);
}

/** Connects and waits for the greeting. */
export function openOnce(
  connect: () => Promise<AgentConnection>,
  outcome: OpenOutcome,
  options: OpenOptions = {},
): void {
  connect().then(
    ({ socket, preamble, earlyCloseError }) => {
      if (options.signal?.aborted) {
        socket.destroy();
        return;
      }
      openSocket(socket, options, outcome, (cause) => outcome.failed(earlyCloseError(cause)));
      if (preamble.length > 0) socket.write(preamble);
    },
    (error: unknown) => {
      if (options.signal?.aborted) return;
      outcome.failed(toBridgeError(error, `can't connect to ${HOST_AGENT}`));
    },
  );
}

/** Waits for the greeting on a socket that is connected or about to be; `closed` is called if it ends before. */
export function openSocket(
  socket: Socket,
  { greetingTimeoutMs, questions, answersMs, signal }: OpenOptions,
  outcome: OpenOutcome,
  closed: (cause: Error | undefined) => void,
): void {
  const stopWaiting = awaitGreeting(
    socket,
    { timeoutMs: greetingTimeoutMs, agentName: HOST_AGENT, questions, answersMs },
    {
      greeted(received, length, answers) {
        signal?.removeEventListener('abort', abort);
        outcome.opened({ socket, greeting: received, greetingLength: length, answers });
      },
      refused(error) {
        end();
        outcome.failed(error);
      },
      closed(cause) {
        end();
        closed(cause);
      },
    },
  );
  signal?.addEventListener('abort', abort);

  function abort(): void {
    stopWaiting();
    end();
  }

  function end(): void {
    signal?.removeEventListener('abort', abort);
    socket.on('error', () => {}).destroy(); // a late error has nobody left to tell
  }
}

/** Runs what talks to an agent; once more if the agent was just ending. */
export async function onceMore<T>(attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (!isEnding(error)) throw error;
    return attempt();
  }
}

function isEnding(error: unknown): boolean {
  return error instanceof BridgeError && ENDING_CODES.has(error.code);
}
