import { lstatSync } from 'node:fs';
import type net from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import { writeFirst } from '@gpg-bridge/core/io/write-first';
import type { ImportResult } from '@gpg-bridge/core/remote/keyring';
import type { KeyOffers } from '../bridge/host-agents.ts';
import type { JournalEntry, WaitingOperation } from '../bridge/journal.ts';
import type { BridgeOptions } from '../bridge-options.ts';
import { operandWords } from '../targets/operand-words.ts';
import { readPid } from './pid-file.ts';
import { filesBeside } from './state-dir.ts';

/** A target as a person named it, and what in their environment says which engine is meant. */
export interface NamedTarget {
  spec: string;
  user?: string | undefined;
  env: Record<string, string | undefined>;
  /** What the person says about the bridge. One to which that is no news is checked, and mended. */
  options: BridgeOptions;
}

/** What a person typed behind `up`, for the daemon that has that bridge. */
export interface UpRequest {
  /** Of the program that asks: another one has other words. */
  version: string;
  words: readonly string[];
  /** What in their environment says which engine is meant, and where the host's agents are. */
  env: Record<string, string>;
  /** Whether the answer is for a terminal with colours. */
  isDecorated: boolean;
  /** The socket that is asked. */
  control?: string;
}

/** What that `up` prints and returns. */
export interface UpAnswer {
  printed: string;
  exitStatus: number;
}

/** How a bridge is checked. */
export interface CheckRequest {
  /** Does for what is not right what the start of a bridge would do. */
  mend: boolean;
  /** Takes a path back from another forward, too. */
  takeover?: boolean | undefined;
  /** The time to end at, if a person gave one again. */
  until?: string | undefined;
}

/** Why a bridge did not become narrower, if it did not. */
export interface NarrowAnswer {
  error?: unknown;
}

/** What became of public keys that a target was given again. */
export type SyncAnswer = { synced: ImportResult } | { error: unknown };

/** How a bridge makes room for the one that succeeds it. */
export interface RetireRequest {
  /** Without waiting for what is in flight. */
  now?: boolean | undefined;
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
  /** How many private keys of each kind the target can use; null where there are none to count. */
  offers: KeyOffers;
  /** What was done in the target beside the sockets, when the bridge was started. */
  notes: string[];
  /** What a person types to get to where it can be used, if there is such a thing. */
  shell?: string;
}

/** What a daemon tells of itself over its control socket. */
export interface DaemonStatus extends BridgeFacts {
  /** Keys that the options seem to allow and that are left out, with the reason. */
  leftOut: string[];
  /** The target and user this bridge is for: what its files are named after. */
  key: string;
  /** The target's user as what it resolves to; empty for the target's own. */
  user: string;
  uptimeSeconds: number;
  /**
   * `ready` when it works, `broken` when something keeps it from working (see `problems`), `waiting-for-target`
   * when it was told to wait for the target to come back, `not-answering` when only its process is known.
   */
  state: 'starting' | 'ready' | 'broken' | 'waiting-for-target' | 'ending' | 'not-answering';
  /** How long it has been in that state. */
  stateSeconds: number;
  /** It goes to whatever has the target's name, with --restart. */
  followsName: boolean;
  /** Where the target's name is looked up: an engine's address, a cluster. */
  place?: string;
  /** What does not work, in words for a person. */
  problems: string[];
  /** The types of the sockets through which clients get to their agents, as far as is known. */
  working: string[];
  /** Why sockets could not be made, in words for a person. */
  failures: string[];
  /** What did not work and was mended for this answer. */
  mended: string[];
  /** The sockets whose paths lead to this bridge; told to the one that succeeds it. */
  inPlace?: string[];
  /** It ends because it was told to, and not since another bridge takes its place or its target has gone. */
  stopped?: boolean;
  /** Another bridge has taken its place: it is going, and that one is there. */
  succeeded?: boolean;
  /** ISO time of the next attempt to attach, where one is planned. */
  nextAttempt: string | null;
  /** ISO time at which it ends by itself as things stand. */
  endsAt: string | null;
  /** All bridges are paused, until this ISO time or until they are resumed. */
  paused: { until: string | null } | null;
  options: BridgeOptions;
  /** Agents of the host that were wanted and not found when it attached. */
  missing: string[];
  sessions: { open: number; total: number };
  bytes: { toHost: number; toTarget: number };
  /** The operation that a person has to answer (PIN, touch, passphrase), if there is one. */
  waiting: WaitingOperation | null;
  lastOperation: JournalEntry | null;
  lastError: string | null;
  /** The answer to `sync`. */
  sync?: SyncAnswer;
  /** The answer to `narrow`. */
  narrow?: NarrowAnswer;
  /** The answer to `up`. */
  up?: UpAnswer;
}

/**
 * What can be asked:
 * - `status`: its status as it knows it; `check`: its status after a look at every socket in the target
 * - `confirm`: the same if a target that a person named is the one it bridges
 * - `up`: with what `up` prints, if it bridges what a person's words name, and they change nothing
 * - `holds`: its status if a socket in a target is one of its own
 * - `ready`: its status once it is ready
 * - `pause`: to say in its log that bridges were paused or resumed
 * - `narrow`: to keep to narrower options from now on
 * - `sync`: to give the target the host's public keys again
 * - `stop`: to end
 * - `handover`: to let another bridge take its sockets, for as long as the connection is open
 * - `retire`: to end as soon as nobody is cut off by it
 */
const REQUEST_NAMES = [
  'status',
  'check',
  'confirm',
  'up',
  'holds',
  'ready',
  'pause',
  'narrow',
  'sync',
  'stop',
  'handover',
  'retire',
] as const;

/** A request that a daemon understands. */
export type ControlRequest = (typeof REQUEST_NAMES)[number];

const REQUESTS: ReadonlySet<string> = new Set(REQUEST_NAMES);
/** A daemon that was asked one of these closes the connection when it has ended. */
const ENDING: ReadonlySet<ControlRequest> = new Set(['stop', 'retire']);

/** Longer than any request: a word, and for `confirm` a target and its environment. */
const MAX_REQUEST = 16_384;

/** Answers a request; `closed` resolves when the caller has gone, and `tell` says something more, later. */
export type Answerer = (
  request: ControlRequest,
  argument: unknown,
  closed: Promise<void>,
  tell: (status: unknown) => void,
) => Promise<unknown>;

/** Answers one line of JSON to one line; the socket stays open until the daemon closes it. */
export function serveControl(socket: net.Socket, answer: Answerer): void {
  let received = '';
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
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

  const tell = (value: unknown) => void socket.write(`${JSON.stringify(value ?? null)}\n`);

  async function answerTo(word: ControlRequest, argument: string | undefined): Promise<void> {
    try {
      tell(await answer(word, argument === undefined ? undefined : JSON.parse(argument), closed, tell));
    } catch {
      socket.destroy(); // an argument that is no JSON, or a status that can't be made
    }
  }
}

/** Errors that mean that no daemon is there, or that it ended before it answered. */
const GONE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']);

/** What a daemon of an older version, which may run for weeks, does not say. */
const LATER_FIELDS = {
  user: '',
  stateSeconds: 0,
  followsName: false,
  missing: [],
  notes: [],
  problems: [],
  working: [],
  failures: [],
  mended: [],
  nextAttempt: null,
  endsAt: null,
  paused: null,
  offers: { gpg: null, ssh: null },
  leftOut: [],
};

/** How long a living daemon may take to say something. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Of a limit: when so much has passed before that is noticed, this process was stopped or had no processor. */
const STOOD_STILL = 1.5;

/** What may end the wait for an answer early, or keep the connection after it. */
export interface AskOptions {
  signal?: AbortSignal | undefined;
  /** Keeps the connection open until this resolves. */
  until?: Promise<unknown> | undefined;
}

/**
 * Asks the daemon behind a control socket; undefined when nobody is there. For `stop` and `retire` it resolves once
 * the daemon has closed the socket, which is the last thing it does; it says something at once all the same, and may
 * say more, of which the last counts.
 */
export function askDaemon(
  path: string,
  request: ControlRequest,
  timeoutMs = ANSWER_TIMEOUT_MS,
  argument?: unknown,
  { signal, until }: AskOptions = {},
): Promise<DaemonStatus | undefined> {
  // A daemon makes a socket; a link would lead to whatever somebody else wants to be taken for one.
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const isEnding = ENDING.has(request);
    const line = Buffer.from(
      `${argument === undefined ? request : `${request} ${JSON.stringify(argument)}`}\n`,
    );
    const socket = connectLocal(path);
    const taken = signal?.aborted ? 0 : writeFirst(socket, line);
    if (taken < line.length) socket.on('connect', () => socket.write(line.subarray(taken)));
    let received = '';
    let failure: NodeJS.ErrnoException | undefined;
    let timer: NodeJS.Timeout | undefined;
    const allow = (ms: number) => {
      clearTimeout(timer);
      if (!Number.isFinite(ms)) return;
      const since = performance.now();
      timer = setTimeout(() => {
        // While this process stood still an answer may have come that it has not read.
        const stoodStill = performance.now() - since > ms * STOOD_STILL;
        if (stoodStill) allow(ms);
        else socket.destroy(new Error(`it did not answer '${request}' within ${ms / 1000} s`));
      }, ms);
    };
    const giveUp = () => socket.destroy(new Error('it was not waited for'));
    allow(isEnding ? Math.min(timeoutMs, ANSWER_TIMEOUT_MS) : timeoutMs);
    if (signal?.aborted) giveUp();
    signal?.addEventListener('abort', giveUp);
    const settle = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
      if (failure && !GONE.has(failure.code)) void noAnswer(path, failure).then(reject);
      else if (!received.endsWith('\n')) resolve(undefined);
      else {
        try {
          const lastLine = received.lastIndexOf('\n', received.length - 2) + 1;
          const status = JSON.parse(received.slice(lastLine)) as DaemonStatus | null;
          resolve(status ? { ...LATER_FIELDS, ...status } : undefined);
        } catch (error) {
          void noAnswer(path, error as Error).then(reject);
        }
      }
    };
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      received += text;
      if (!received.endsWith('\n')) return;
      if (isEnding) allow(timeoutMs);
      else if (!until) socket.destroy();
      else {
        settle();
        void until.finally(() => socket.destroy());
      }
    });
    socket.on('error', (error) => {
      failure = error;
    });
    socket.on('close', settle);
  });
}

/** The error for a daemon that is there and does not answer, with what ends it. */
async function noAnswer(path: string, cause: Error): Promise<BridgeError> {
  // Loaded late: it is hardly ever needed.
  const { knownProcess } = await import('./known-process.ts');
  const files = filesBeside(path.replace(/\.sock$/, '.pid'));
  const known = knownProcess(files);
  const pid = readPid(files.pid);
  return new BridgeError('DAEMON_FAILED', {
    what: `the bridge ${known ? `to ${known.target}` : `behind ${path}`} is of no use`,
    why: cause.message,
    fix: known
      ? `End its process (PID ${known.pid}) with \`gpg-bridge down ${operandWords(known.target, known.selector)} --force\`.`
      : `Find its process, \`gpg-bridge serve\`${pid ? ` (maybe PID ${pid})` : ''}, and end it.`,
    cause,
  });
}
