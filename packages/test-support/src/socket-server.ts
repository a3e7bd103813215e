import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import {
  launcherCommand,
  parseLauncherLine,
  type Runtime,
  type ServerConfig,
  serverPayload,
} from '@gpg-bridge/socket-server';
import { build } from 'esbuild';
import { DATA, PUBKEY, READY, uint32, WINDOW, type WireFrame, WireReader, wireFrame } from './wire.ts';

const SOURCES = new URL('../../socket-server/src/', import.meta.url);

let bundle: Promise<string> | undefined;

/** The text that is sent for a runtime. */
export async function serverSource(runtime: Runtime): Promise<string> {
  if (runtime !== 'node') {
    return readFile(new URL(runtime === 'perl' ? 'perl/server.pl' : 'python/server.py', SOURCES), 'utf8');
  }
  bundle ??= build({
    entryPoints: [new URL('node/main.ts', SOURCES).pathname],
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'cjs',
    target: 'node18',
    write: false,
    logLevel: 'silent',
  }).then((result) => result.outputFiles[0]!.text);
  return bundle;
}

/** What READY said. */
export interface ReadyFacts {
  version: number;
  features: string[];
  runtime: string;
  sockets: { type: string; path: string }[];
  warnings: string[];
}

/** How to start a server. */
export interface ServerOptions {
  runtime: Runtime;
  env: NodeJS.ProcessEnv;
  config: ServerConfig;
  /** What stands before `sh -c …`: a command that changes the surroundings and then runs the rest. */
  prefix?: readonly string[];
  /** Where the launcher may look for runtimes itself, instead of being told which. */
  choose?: boolean;
}

/** A socket server in a process of its own, started as in a target, and the host's side of its frames. */
export class RunningServer {
  readonly #inbox: WireFrame[] = [];
  readonly #reader = new WireReader();
  #changed: (() => void)[] = [];
  #started = false;
  #printed = Buffer.alloc(0);
  #ended = false;
  stderr = '';
  runtime = '';
  readonly exited: Promise<number | string | null>;

  private constructor(
    readonly child: ChildProcessWithoutNullStreams,
    payload: Buffer,
  ) {
    child.stdout.on('data', (chunk: Buffer) => this.#onChunk(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString();
      this.#wake();
    });
    child.stdin.on('error', () => {}); // it may be gone already
    child.stdin.write(payload);
    this.exited = once(child, 'close').then(([status, signal]) => {
      this.#ended = true;
      this.#wake();
      return (status ?? signal) as number | string | null;
    });
  }

  /** Starts it; frames may be sent at once. */
  static async start(options: ServerOptions): Promise<RunningServer> {
    const payload = serverPayload(options.runtime, options.config, await serverSource(options.runtime));
    const launcher = launcherCommand(options.choose ? {} : { runtime: options.runtime });
    const [command = 'sh', ...args] = [...(options.prefix ?? []), ...launcher];
    const child = spawn(command, args, { env: options.env, stdio: 'pipe' });
    await once(child, 'spawn');
    return new RunningServer(child, payload);
  }

  /** Waits for the first frame that fits, leaving others where they are. */
  async take(fits: (frame: WireFrame) => boolean): Promise<WireFrame> {
    for (;;) {
      const at = this.#inbox.findIndex(fits);
      if (at >= 0) return this.#inbox.splice(at, 1)[0]!;
      if (this.#ended) throw new Error(`the server ended; it said: ${this.stderr}`);
      await this.#change();
    }
  }

  /** Waits for a frame of a type, of one stream if given. */
  next(type: number, stream?: number): Promise<WireFrame> {
    return this.take((frame) => frame.type === type && (stream === undefined || frame.stream === stream));
  }

  /** The frames that have come and were not taken. */
  get waiting(): readonly WireFrame[] {
    return this.#inbox;
  }

  /** Waits for what the server says on stderr. */
  async says(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.stderr)) {
      if (this.#ended) throw new Error(`the server ended; it said: ${this.stderr}`);
      await this.#change();
    }
  }

  /** Waits until a file is there. */
  async waitForFile(path: string): Promise<void> {
    while (!existsSync(path)) {
      if (this.#ended) throw new Error(`the server ended; it said: ${this.stderr}`);
      await delay(10);
    }
  }

  /** Resident memory of the server, in KiB. */
  async residentKiB(): Promise<number> {
    const status = await readFile(`/proc/${this.child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
  }

  /** Sends a frame. */
  send(type: number, stream: number, payload: Buffer | string = ''): void {
    this.child.stdin.write(wireFrame(type, stream, payload));
  }

  /** Sends bytes as they are. */
  sendRaw(bytes: Buffer): void {
    this.child.stdin.write(bytes);
  }

  /** Sends keys if gpg is served, announces WINDOW unless told otherwise, and waits for READY. */
  async ready({ keys = '' as Buffer | string, gpg = true, windows = true } = {}): Promise<ReadyFacts> {
    if (gpg) this.send(PUBKEY, 0, keys);
    if (windows) this.send(WINDOW, 0, uint32(0));
    const { payload } = await this.next(READY);
    return JSON.parse(payload.toString()) as ReadyFacts;
  }

  /** Waits for so many bytes of a stream, granting credit for them when asked to. */
  async data(stream: number, size: number, grant = false): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let got = 0; got < size; ) {
      const { payload } = await this.next(DATA, stream);
      pieces.push(payload);
      got += payload.length;
      if (grant) this.send(WINDOW, stream, uint32(payload.length));
    }
    return Buffer.concat(pieces);
  }

  /** Ends it as a host does, and waits. */
  async stop(): Promise<number | string | null> {
    this.child.stdin.end();
    return this.exited;
  }

  #onChunk(chunk: Buffer): void {
    let bytes = chunk;
    if (!this.#started) {
      this.#printed = Buffer.concat([this.#printed, chunk]);
      const launched = parseLauncherLine(this.#printed);
      if (!launched) return;
      this.#started = true;
      this.runtime = launched.runtime;
      bytes = launched.rest;
    }
    this.#inbox.push(...this.#reader.push(bytes));
    this.#wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#changed.splice(0)) resolve();
  }
}
