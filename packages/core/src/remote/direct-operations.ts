import { type BigIntStats, chmodSync, lstatSync, mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { open, readlink } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import { BoundSocket } from '../fs/bound-socket.ts';
import { bootId } from '../fs/socket-identity.ts';
import { findProgram, type GnupgOptions, type GnupgProgram } from '../gnupg/programs.ts';
import { asViewSocket } from '../io/view-socket.ts';
import { type LogCallback, noLog } from '../log.ts';
import { type ProgramResult, runProgram } from '../process/run-program.ts';
import type { SocketType } from '../socket-type.ts';
import type {
  BindRequest,
  FileFacts,
  Question,
  Reply,
  RunRequest,
  TargetFacts,
  TargetOperations,
} from './operations.ts';
import { PathWatch } from './path-watch.ts';

/** What operations on this machine need beside its GnuPG. */
export interface DirectOptions extends GnupgOptions {
  log?: LogCallback | undefined;
  /** Called for every client; the socket is the callee's from then on, its errors too. */
  onConnection?(socket: Socket, type: SocketType): void;
  /** As for net.Server: whether a client that has ended its side still gets answers. */
  allowHalfOpen?: boolean | undefined;
}

/** A socket that is listened on. */
interface Listening {
  bound: BoundSocket;
  watch: PathWatch;
}

const LF = 10;
const READ_BYTES = 65_536;
const MAX_REPLY_BYTES = 65_536;
const RUN_TIMEOUT_SECONDS = 30;
/** gpg reports three lines of some 100 bytes a key. */
const MAX_STDOUT_BYTES = 32 * 1024 * 1024;
const GNUPG_PROGRAMS: ReadonlySet<string> = new Set<GnupgProgram>(['gpg', 'gpgconf']);

/** The operations of a target on the machine and as the user that this process runs on. */
export class DirectOperations implements TargetOperations {
  readonly facts: TargetFacts;
  readonly #options: DirectOptions;
  readonly #log: LogCallback;
  readonly #listening = new Map<SocketType, Listening>();
  readonly #madeDirectories: string[] = [];
  #binding: Promise<void> = Promise.resolve();

  constructor(options: DirectOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? noLog;
    const boot = bootId();
    this.facts = {
      system: process.platform,
      uid: process.getuid?.() ?? -1,
      home: (options.env ?? process.env).HOME || homedir(),
      ...(boot === undefined ? {} : { boot }),
    };
  }

  async stat(path: string): Promise<FileFacts | undefined> {
    return factsOf(() => statSync(path, { bigint: true }));
  }

  async lstat(path: string): Promise<FileFacts | undefined> {
    await this.#binding; // which was called before, and is carried out before
    return factsOf(() => lstatSync(path, { bigint: true }));
  }

  readlink(path: string): Promise<string> {
    return readlink(path);
  }

  async list(path: string): Promise<string[]> {
    return readdirSync(path);
  }

  async read(path: string): Promise<Buffer> {
    const file = await open(path);
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  which(program: string): Promise<string> {
    return findProgram(program as GnupgProgram, this.#options);
  }

  async run({ program, args, input, timeoutSeconds }: RunRequest): Promise<ProgramResult> {
    const path = GNUPG_PROGRAMS.has(program) ? await this.which(program) : program;
    return runProgram(path, args, {
      env: { ...(this.#options.env ?? process.env), LC_ALL: 'C' },
      ...(input ? { input } : {}),
      timeoutMs: (timeoutSeconds ?? RUN_TIMEOUT_SECONDS) * 1000,
      maxOutput: MAX_STDOUT_BYTES,
    });
  }

  async makeDirectory(path: string): Promise<void> {
    this.#makeDirectory(path);
  }

  async chmod(path: string, mode: number): Promise<void> {
    chmodSync(path, mode);
  }

  ask(path: string, question: Question): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const { signal } = question;
      if (signal?.aborted) return reject(signal.reason);
      let bytes = Buffer.alloc(0);
      const socket = createConnection({ path });
      const settle = (outcome: () => void) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', aborted);
        socket.destroy();
        outcome();
      };
      const replied = (reason: Reply['reason']) => settle(() => resolve({ reason, bytes }));
      const aborted = () => settle(() => reject(signal!.reason));
      const timer = setTimeout(replied, question.timeoutMs, 'timeout');
      signal?.addEventListener('abort', aborted);
      const onError = (error: Error) => settle(() => reject(error));
      socket.once('error', onError).once('connect', () => {
        socket.off('error', onError).on('error', () => {}); // a reset shows as a close
        socket.once('end', () => replied('closed')).once('close', () => replied('closed'));
        socket.on('data', (chunk: Buffer) => {
          bytes = Buffer.concat([bytes, chunk]).subarray(0, MAX_REPLY_BYTES);
          const isFull = bytes.length === MAX_REPLY_BYTES;
          const isEnough = bytes.length >= question.count && lineEnds(bytes) >= question.lines;
          if (isFull || isEnough) replied('enough');
        });
        if (question.bytes.length > 0) socket.write(question.bytes);
      });
    });
  }

  bind(request: BindRequest): Promise<void> {
    const bound = this.#bind(request);
    this.#binding = bound.catch(() => {});
    return bound;
  }

  async #bind(request: BindRequest): Promise<void> {
    const { type, path, expected } = request;
    const before = this.#listening.get(type);
    const bound = await BoundSocket.bindAs(request.temporaryPath, path, {
      backlog: request.backlog,
      allowHalfOpen: this.#options.allowHalfOpen ?? false,
      onConnection: (socket) => this.#options.onConnection?.(asViewSocket(socket), type),
      onError: (error) => this.#log(`${path} could not accept a connection: ${error.message}`, 'warn'),
    });
    try {
      const placed = expected ? bound.replace(expected) : bound.placeIfFree();
      if (!placed) throw Object.assign(new Error('something else is there'), { code: 'EEXIST' });
    } catch (error) {
      bound.close();
      throw error;
    }
    before?.watch.close();
    this.#listening.set(type, {
      bound,
      watch: new PathWatch(path, bound.identity, request.onReplaced, this.#log),
    });
    await before?.bound.closeEmpty();
  }

  async release(type: SocketType): Promise<void> {
    const listening = this.#listening.get(type);
    this.#listening.delete(type);
    listening?.watch.close();
    await listening?.bound.closeEmpty();
  }

  /** Removes the sockets that are still this process's own, and the directories it made if they are empty. */
  async close(): Promise<void> {
    await Promise.all([...this.#listening.keys()].map((type) => this.release(type)));
    for (const directory of this.#madeDirectories.splice(0).reverse()) {
      try {
        rmdirSync(directory);
      } catch {
        // It is in use by now, and stays.
      }
    }
  }

  /**
   * One directory at a time: Node's own recursive mkdir never returns where mkdir answers ENOENT for a parent
   * that is there, as /proc does.
   */
  #makeDirectory(path: string): void {
    if (this.#makeOne(path)) return;
    this.#makeDirectory(dirname(path));
    if (!this.#makeOne(path)) throw Object.assign(new Error(`${path} can't be made`), { code: 'ENOENT' });
  }

  /** False if the directory above is missing. */
  #makeOne(directory: string): boolean {
    try {
      mkdirSync(directory, { mode: 0o700 });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST' || directory === dirname(directory)) return true;
      if (code === 'ENOENT') return false;
      throw error;
    }
    this.#madeDirectories.push(directory);
    chmodSync(directory, 0o700); // a umask may have taken away what the owner needs
    return true;
  }
}

function factsOf(look: () => BigIntStats): FileFacts | undefined {
  let facts: BigIntStats;
  try {
    facts = look();
  } catch {
    return undefined;
  }
  const kinds = [
    ['socket', facts.isSocket()],
    ['link', facts.isSymbolicLink()],
    ['directory', facts.isDirectory()],
    ['file', facts.isFile()],
  ] as const;
  return {
    identity: { dev: String(facts.dev), ino: String(facts.ino) },
    kind: kinds.find(([, is]) => is)?.[0] ?? 'other',
    mode: Number(facts.mode) & 0o7777,
    uid: Number(facts.uid),
    ageSeconds: (Date.now() - Number(facts.ctimeMs)) / 1000,
  };
}

/** How many LF there are. */
function lineEnds(bytes: Buffer): number {
  let count = 0;
  for (const byte of bytes) if (byte === LF) count++;
  return count;
}
