import type net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '../errors.ts';
import { ViewSocket } from '../io/view-socket.ts';
import {
  closedEarly,
  type Failure,
  failureOf,
  mayBeFile,
  nonceRefused,
  overdue,
  type Patience,
  wrongEcho,
} from './connect-errors.ts';
import { cygwinHandshake } from './cygwin-handshake.ts';
import {
  MAX_SOCKET_FILE,
  malformed,
  nodeFileSystem,
  parseSocketFile,
  type SocketFile,
  type SocketFileSystem,
} from './socket-file.ts';

/** How an agent was reached. */
export type ConnectionKind = 'unix' | 'windows' | 'cygwin' | 'pipe';

/** A connected agent that has not been spoken to yet. */
export interface AgentConnection {
  readonly socket: net.Socket;
  /** The socket, socket file or pipe that was asked for. */
  readonly path: string;
  /** The file whose change means another agent: where a redirect leads, else `path`. */
  readonly socketPath: string;
  readonly kind: ConnectionKind;
  /** What has to be written before anything else; empty unless the agent wants a nonce. A secret. */
  readonly preamble: Buffer;
  /** The error for an agent that closes or resets this connection before its greeting. */
  earlyCloseError(cause?: unknown): BridgeError;
}

/** Options for `connectToAgent`. */
export interface ConnectOptions {
  timeoutMs?: number | undefined;
  /** Whether to wait, within the timeout, for a socket that is missing or refuses; true unless said. */
  waitForStart?: boolean;
  /** For `${VAR}` in a redirect. */
  env?: NodeJS.ProcessEnv | undefined;
  signal?: AbortSignal | undefined;
  socketFactory?: ((options: net.NetConnectOpts) => net.Socket) | undefined;
  fileSystem?: SocketFileSystem | undefined;
  platform?: NodeJS.Platform | undefined;
}

/** Connect timeout unless another is given. */
const CONNECT_TIMEOUT_MS = 5000;

/** An agent writes the file in two steps, microseconds apart; what is malformed after this stays so. */
const HALF_WRITTEN_MS = 250;
const FIRST_PAUSE_MS = 4;
const LONGEST_PAUSE_MS = 128;
const NO_PREAMBLE = Buffer.alloc(0);

/** Connects to the agent behind a Unix socket, a socket file of any form, or a Windows pipe. */
export async function connectToAgent(path: string, options: ConnectOptions = {}): Promise<AgentConnection> {
  const { timeoutMs = CONNECT_TIMEOUT_MS, waitForStart = true, signal } = options;
  const start = performance.now();
  const patienceMs: Record<Patience, number> = {
    none: 0,
    'half-written': Math.min(HALF_WRITTEN_MS, timeoutMs),
    starting: waitForStart ? timeoutMs : 0,
    busy: timeoutMs,
  };
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    signal?.throwIfAborted();
    // The file is read afresh each time: the agent may have been restarted, with another port and nonce.
    const outcome = await new Attempt(path, start + timeoutMs, options).connect();
    signal?.throwIfAborted();
    if (!isFailure(outcome)) return outcome;
    // Spread out, so that a thousand refused clients don't all come back in the same moment.
    const wait = pause * (0.5 + Math.random());
    if (performance.now() + wait >= start + patienceMs[outcome.patience]) throw outcome.error;
    await delay(wait, undefined, { signal });
  }
}

/** One attempt to connect. */
class Attempt {
  readonly #path: string;
  readonly #deadline: number;
  readonly #options: ConnectOptions;
  readonly #platform: NodeJS.Platform;

  constructor(path: string, deadline: number, options: ConnectOptions) {
    this.#path = path;
    this.#deadline = deadline;
    this.#options = options;
    this.#platform = options.platform ?? process.platform;
  }

  async connect(): Promise<AgentConnection | Failure> {
    if (isPipe(this.#path)) return this.#connectPath(this.#path, 'pipe');
    if (this.#platform === 'win32') return this.#connectFile();
    const outcome = await this.#connectPath(this.#path, 'unix');
    // The file is looked at after a failure only, so that the usual connection costs no other system call.
    if (!isFailure(outcome) || !mayBeFile(outcome)) return outcome;
    return this.#connectFile(outcome);
  }

  /** Connects to what the file leads to; `deadSocket` is the failure if it turns out to be a socket. */
  async #connectFile(deadSocket?: Failure): Promise<AgentConnection | Failure> {
    const content = await this.#read();
    if (content === 'socket' && deadSocket) return deadSocket;
    if (typeof content === 'string') {
      return { error: malformed(this.#path, 'it is neither a socket nor a file'), patience: 'none' };
    }
    if (isFailure(content)) return content;
    // An agent makes the file before it writes to it.
    if (content.length === 0) return { error: malformed(this.#path, 'it is empty'), patience: 'busy' };
    let file: SocketFile;
    try {
      file = parseSocketFile(this.#path, content, this.#options.env ?? process.env);
    } catch (error) {
      if (error instanceof BridgeError) return { error, patience: 'half-written' };
      throw error;
    }
    if (file.kind !== 'redirect') return this.#connectPort(file);
    if (this.#platform === 'win32') {
      const why = 'it is a redirect, which only Unix systems have';
      return { error: malformed(this.#path, why), patience: 'none' };
    }
    // libassuan follows one redirect and no more: a second one refuses, as any other file does.
    return this.#connectPath(file.path, 'unix');
  }

  async #read(): Promise<Buffer | 'socket' | 'other' | Failure> {
    try {
      return await (this.#options.fileSystem ?? nodeFileSystem).read(this.#path, MAX_SOCKET_FILE + 1);
    } catch (cause) {
      return failureOf(this.#path, cause);
    }
  }

  async #connectPath(path: string, kind: 'unix' | 'pipe'): Promise<AgentConnection | Failure> {
    const socket = this.#createSocket({ path });
    return (await this.#connected(socket, path)) ?? connection(socket, this.#path, kind, NO_PREAMBLE, path);
  }

  async #connectPort(file: Extract<SocketFile, { nonce: Buffer }>): Promise<AgentConnection | Failure> {
    const socket = this.#createSocket({ host: file.host, port: file.port });
    const failure = await this.#connected(socket, `${this.#path} (port ${file.port})`);
    if (failure) return failure;
    socket.setNoDelay(true);
    if (file.kind === 'windows') return connection(socket, this.#path, 'windows', file.nonce);

    const outcome = await this.#bounded(socket, cygwinHandshake(socket, file.nonce, this.#path));
    if (outcome === 'done') return connection(socket, this.#path, 'cygwin', NO_PREAMBLE);
    socket.destroy();
    const errors = {
      overdue: () => overdue(this.#path, 'finish the handshake'),
      closed: () => nonceRefused(this.#path),
      'wrong-echo': () => wrongEcho(this.#path),
    };
    return { error: errors[outcome](), patience: 'none' };
  }

  #createSocket(options: net.NetConnectOpts): net.Socket {
    return (this.#options.socketFactory ?? ViewSocket.to)(options);
  }

  async #connected(socket: net.Socket, shownPath: string): Promise<Failure | undefined> {
    const outcome = await this.#bounded(socket, connectOutcome(socket));
    if (outcome === 'connected') return undefined;
    socket.destroy();
    return outcome === 'overdue'
      ? { error: overdue(shownPath, 'accept the connection'), patience: 'none' }
      : failureOf(shownPath, outcome);
  }

  /** Destroys the socket at the deadline or the caller's signal; `outcome` has to settle when it is destroyed. */
  async #bounded<T>(socket: net.Socket, outcome: Promise<T>): Promise<T | 'overdue'> {
    const { signal } = this.#options;
    let over = false;
    const stop = () => {
      over = true;
      socket.destroy();
    };
    const timer = setTimeout(stop, Math.max(0, this.#deadline - performance.now()));
    signal?.addEventListener('abort', stop, { once: true });
    const result = await outcome;
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
    return over ? 'overdue' : result;
  }
}

function connection(
  socket: net.Socket,
  path: string,
  kind: ConnectionKind,
  preamble: Buffer,
  socketPath = path,
): AgentConnection {
  const closeError = preamble.length > 0 ? nonceRefused : closedEarly;
  return { socket, path, socketPath, kind, preamble, earlyCloseError: (cause) => closeError(path, cause) };
}

function connectOutcome(socket: net.Socket): Promise<'connected' | Error | undefined> {
  return new Promise((resolve) => {
    const onConnect = () => {
      socket.off('close', onEnd).off('error', onEnd);
      resolve('connected');
    };
    const onEnd = (error?: unknown) => {
      socket.off('connect', onConnect); // the error listener stays: the socket is about to be destroyed
      resolve(error instanceof Error ? error : undefined);
    };
    socket.once('connect', onConnect).once('close', onEnd).on('error', onEnd);
  });
}

function isFailure(value: object): value is Failure {
  return 'error' in value;
}

/** Whether a path is that of a pipe of Windows. */
export function isPipe(path: string): boolean {
  return /^[\\/]{2}[.?][\\/]pipe[\\/]/i.test(path);
}
