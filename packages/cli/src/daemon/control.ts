import net from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { JournalEntry } from '../bridge/journal.ts';
import type { BridgeOptions } from '../bridge-options.ts';

/** A target as a person named it, and what in their environment says which engine is meant. */
export interface NamedTarget {
  spec: string;
  user?: string | undefined;
  env: Record<string, string | undefined>;
}

/** What `up` prints of a bridge, and the library returns. */
export interface BridgeFacts {
  /** The target as a person names it. */
  target: string;
  /** The container's full ID, or the canonical target. */
  id: string;
  pid: number;
  /** ISO time at which the bridge was started. */
  started: string;
  runtime: string;
  sockets: { type: string; path: string }[];
  /** Where the target is, in words, if its name alone does not say it. */
  where?: string;
  /** What the person should know: an agent that is missing, private keys that are shadowed. */
  warnings: string[];
  /** What a person types to get to where it can be used, if there is such a thing. */
  shell?: string;
}

/** What a daemon tells of itself over its control socket. */
export interface DaemonStatus extends BridgeFacts {
  /** The target and user this bridge is for: what its files are named after. */
  key: string;
  uptimeSeconds: number;
  /** `waiting-for-target` when it was told to wait for the target to come back. */
  state: 'starting' | 'ready' | 'waiting-for-target' | 'ending';
  /** How long it has been in that state. */
  stateSeconds: number;
  /** It goes to whatever has the target's name, with --restart. */
  followsName: boolean;
  /** Where the target's name is looked up: an engine's address, a cluster. */
  place?: string;
  /** The target's user as what it resolves to; empty for the target's own. */
  user: string;
  options: BridgeOptions;
  /** Agents of the host that were wanted and not found when it attached. */
  missing: string[];
  sessions: { open: number; total: number };
  bytes: { toHost: number; toTarget: number };
  /** The operation that a person has to answer (PIN, touch, passphrase), if there is one. */
  waiting: { command: string; key?: string; sinceSeconds: number } | null;
  lastOperation: JournalEntry | null;
  lastError: string | null;
}

/**
 * What can be asked: its status now, its status once it is ready, to end, its status if a target that a
 * person named is the one it bridges, or if a socket in a target is one of its own.
 */
export type ControlRequest = 'status' | 'ready' | 'stop' | 'confirm' | 'holds';

const REQUESTS: ReadonlySet<string> = new Set<ControlRequest>([
  'status',
  'ready',
  'stop',
  'confirm',
  'holds',
]);

/** Longer than any request: a word, and for `confirm` a target and its environment. */
const MAX_REQUEST = 16_384;

/** Answers one line of JSON to one line; the socket stays open until the daemon closes it. */
export function serveControl(
  socket: net.Socket,
  answer: (request: ControlRequest, argument: unknown) => Promise<unknown>,
): void {
  let received = '';
  socket.on('error', () => {}); // a caller that left needs no answer
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    received += text;
    if (received.length > MAX_REQUEST) socket.destroy();
    const end = received.indexOf('\n');
    if (end < 0) return;
    const [, word = '', argument] = /^(\w*)(?: (.*))?$/s.exec(received.slice(0, end)) ?? [];
    received = '';
    if (!REQUESTS.has(word)) socket.destroy();
    else void answerTo(word as ControlRequest, argument);
  });

  async function answerTo(word: ControlRequest, argument: string | undefined): Promise<void> {
    try {
      const value = await answer(word, argument === undefined ? undefined : JSON.parse(argument));
      socket.write(`${JSON.stringify(value ?? null)}\n`);
    } catch {
      socket.destroy(); // an argument that is no JSON, or a status that can't be made
    }
  }
}

/** Errors that mean that no daemon is there, or that it ended before it answered. */
const GONE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']);

/**
 * Asks the daemon behind a control socket; undefined when nobody is there. For `stop` it resolves once the
 * daemon has closed the socket, which is the last thing it does.
 */
export function askDaemon(
  path: string,
  request: ControlRequest,
  timeoutMs = 5_000,
  argument?: unknown,
): Promise<DaemonStatus | undefined> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(path);
    let received = '';
    let failure: NodeJS.ErrnoException | undefined;
    const timer = setTimeout(() => {
      socket.destroy(new Error(`it did not answer '${request}' within ${timeoutMs / 1000} s`));
    }, timeoutMs);
    socket.setEncoding('utf8');
    const line = argument === undefined ? request : `${request} ${JSON.stringify(argument)}`;
    socket.on('connect', () => socket.write(`${line}\n`));
    socket.on('data', (text: string) => {
      received += text;
      if (request !== 'stop' && received.endsWith('\n')) socket.destroy();
    });
    socket.on('error', (error) => {
      failure = error;
    });
    socket.on('close', () => {
      clearTimeout(timer);
      if (failure && !GONE.has(failure.code)) reject(noAnswer(path, failure));
      else if (!received.endsWith('\n')) resolve(undefined);
      else {
        try {
          resolve((JSON.parse(received) as DaemonStatus | null) ?? undefined);
        } catch (error) {
          reject(noAnswer(path, error as Error));
        }
      }
    });
  });
}

function noAnswer(path: string, cause: Error): BridgeError {
  return new BridgeError('DAEMON_FAILED', {
    what: `the bridge behind ${path} is of no use`,
    why: cause.message,
    fix: 'End its process (`gpg-bridge serve`) yourself, and try again.',
    cause,
  });
}
