import type { SocketIdentity } from '../fs/socket-identity.ts';
import type { ProgramResult } from '../process/run-program.ts';
import type { SocketType } from '../socket-type.ts';

/** What a target says about itself and the user in it. */
export interface TargetFacts {
  /** Node's word for the platform. */
  system: string;
  uid: number;
  home: string;
  /** The running kernel: what has the same numbers under another one is another file. */
  boot?: string;
}

/** What the system knows about a file. */
export interface FileFacts {
  identity: SocketIdentity;
  kind: 'socket' | 'directory' | 'file' | 'link' | 'other';
  /** Permission bits. */
  mode: number;
  uid: number;
  /** Since its status last changed, by the target's clock. */
  ageSeconds: number;
}

/** A program to run. */
export interface RunRequest {
  program: string;
  args: readonly string[];
  input?: Buffer | undefined;
  timeoutSeconds?: number | undefined;
}

/** Something to say to a listener, and when its answer is enough. */
export interface Question {
  bytes: Buffer;
  /** Enough is this many bytes … */
  count: number;
  /** … with this many line ends among them. */
  lines: number;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** What a listener said until that was enough, it closed, or the time was over. */
export interface Reply {
  reason: 'enough' | 'closed' | 'timeout';
  bytes: Buffer;
}

/** What the clients of a socket are told when their sessions break. */
export interface LastWords {
  /** For one that was told nothing yet: ahead of the rest. */
  greeting: Buffer;
  /** For one that is not in the middle of a line. */
  refusal: Buffer;
}

/** A socket to listen on. One of a type that is bound already is moved. */
export interface BindRequest {
  type: SocketType;
  path: string;
  /** A name in the same directory to bind it under before it gets its path. */
  temporaryPath: string;
  /** What is replaced; undefined: nothing may be at the path. */
  expected: SocketIdentity | undefined;
  backlog: number;
  /** What its clients are told when the way to the host is gone. */
  lastWords?: LastWords | undefined;
  /** The path leads to something else by now; comes once for each thing that appears there. */
  onReplaced(): void;
}

/**
 * Everything that the bridge does in a target, directly or through a server there. Calls that are made one
 * after the other without waiting are carried out in that order, programs and questions apart; over a
 * carrier they share a round trip. A failure is an error with the system's `code`.
 */
export interface TargetOperations {
  readonly facts: TargetFacts;
  /** Links followed; undefined when nothing there can be seen. */
  stat(path: string): Promise<FileFacts | undefined>;
  /** The same for a link itself. */
  lstat(path: string): Promise<FileFacts | undefined>;
  readlink(path: string): Promise<string>;
  /** The names in a directory. */
  list(path: string): Promise<string[]>;
  /** The first 64 KiB of a file. */
  read(path: string): Promise<Buffer>;
  /** Where a program is. */
  which(program: string): Promise<string>;
  run(request: RunRequest): Promise<ProgramResult>;
  /** Makes a directory, and those above it that are missing, for their owner alone. */
  makeDirectory(path: string): Promise<void>;
  chmod(path: string, mode: number): Promise<void>;
  ask(path: string, question: Question): Promise<Reply>;
  /** Listens; EEXIST when something else is at the path than was expected. */
  bind(request: BindRequest): Promise<void>;
  /** Stops listening, and removes the socket's file if it is still that. */
  release(type: SocketType): Promise<void>;
}

/** The `code` of a failed operation. */
export function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException | undefined)?.code ?? '';
}
