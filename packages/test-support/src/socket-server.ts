import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { BridgeError } from '@gpg-bridge/core/errors';
import { decodeFields, encodeFields } from '@gpg-bridge/core/mux/fields';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { type SocketSetup, serveSockets } from '@gpg-bridge/core/remote/serve-sockets';
import { type OperationCaller, WireOperations } from '@gpg-bridge/core/remote/wire-operations';
import {
  launcherCommand,
  parseLauncherLine,
  type Runtime,
  SERVER_CONFIG,
  type ServerConfig,
  serverPayload,
} from '@gpg-bridge/socket-server';
import { build } from 'esbuild';
import { emulatedLauncher, nativeProgram, OTHER_ARCHITECTURE, OWN_ARCHITECTURE } from './native-server.ts';
import { testedWith, versionOf } from './tested-with.ts';
import {
  CALL,
  CHANGED,
  DATA,
  PING,
  PONG,
  PUBKEY,
  READY,
  RESULT,
  uint32,
  WINDOW,
  type WireFrame,
  WireReader,
  wireFrame,
} from './wire.ts';

const SOURCES = new URL('../../socket-server/src/', import.meta.url);

/** A runtime, or the native server for another architecture under QEMU. */
export type TestedRuntime = Runtime | 'emulated';

/** What is joined for Perl, as scripts/build.mjs does it. */
const PERL_TEXTS = ['perl/server.pl', 'perl/ahead.pl'];

let bundle: Promise<string> | undefined;

/** What is sent for a runtime. */
export async function serverSource(runtime: TestedRuntime): Promise<string | Buffer> {
  if (runtime === 'native') return nativeProgram(OWN_ARCHITECTURE);
  if (runtime === 'emulated') return nativeProgram(OTHER_ARCHITECTURE);
  if (runtime === 'perl') {
    const texts = PERL_TEXTS.map((file) => readFile(new URL(file, SOURCES), 'utf8'));
    return (await Promise.all(texts)).join('');
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

/** What READY said, and what became of the sockets that the host then asked for. */
export interface ReadyFacts {
  version: number;
  runtime: string;
  system: string;
  uid: number;
  home: string;
  sockets: { type: string; path: string }[];
  warnings: string[];
  failures: BridgeError[];
}

/** Which sockets the host asks for, and how the server is set up. */
export interface ServeSetup
  extends Partial<Omit<SocketSetup, 'keys' | 'log' | 'probeTimeoutMs'>>,
    Partial<ServerConfig> {
  /** Fingerprints of the keys that get ultimate ownertrust. */
  trust?: readonly string[];
  /** How long whatever is at a socket's path has to answer, in ms. */
  probeMs?: number;
}

/** How to start a server. */
export interface ServerOptions {
  runtime: TestedRuntime;
  env: NodeJS.ProcessEnv;
  setup: ServeSetup;
  /** What stands before `sh -c …`: a command that changes the surroundings and then runs the rest. */
  prefix?: readonly string[];
  /** Source that goes before the server's own. */
  prelude?: string;
}

/** The version of what runs a server. */
function runtimeVersion(runtime: ServerOptions['runtime']): string | Promise<string> {
  if (runtime === 'node') return process.versions.node;
  if (runtime === 'native') return OWN_ARCHITECTURE;
  if (runtime === 'perl') return versionOf('perl', '-e', 'printf "%vd", $^V');
  return versionOf(`qemu-${OTHER_ARCHITECTURE}-static`, '--version').then(
    (version) => `${OTHER_ARCHITECTURE}, QEMU ${version}`,
  );
}

/** A socket server in a process of its own, started as in a target, and the host's side of its frames. */
export class RunningServer implements OperationCaller {
  readonly #setup: ServeSetup;
  readonly #calls = new Map<number, (fields: Buffer[]) => void>();
  readonly #onChanged: ((socketType: string) => void)[] = [];
  #lastCall = 0;
  #operations: TargetOperations | undefined;
  readonly #inbox: WireFrame[] = [];
  readonly #reader = new WireReader();
  #changed: (() => void)[] = [];
  #started = false;
  #printed = Buffer.alloc(0);
  #ended = false;
  /** What the server printed on its standard error, and what the host's log has about it. */
  said = '';
  runtime = '';
  /** Whether the host's side answers PINGs, as a host does. */
  answersPings = true;
  /** How many PINGs have come. */
  pings = 0;
  readonly exited: Promise<number | string | null>;

  private constructor(
    readonly child: ChildProcessWithoutNullStreams,
    payload: Buffer,
    setup: ServeSetup,
  ) {
    this.#setup = setup;
    child.stdout.on('data', (chunk: Buffer) => this.#onChunk(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      this.#hear(chunk.toString());
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
    const config = { ...SERVER_CONFIG };
    for (const name of Object.keys(config) as (keyof ServerConfig)[]) {
      config[name] = options.setup[name] ?? config[name];
    }
    const isEmulated = options.runtime === 'emulated';
    const runtime = options.runtime === 'emulated' ? 'native' : options.runtime;
    const source = await serverSource(options.runtime);
    const text = options.prelude === undefined ? source : `${options.prelude}${source}`;
    const payload = serverPayload(runtime, config, text);
    const launcher = isEmulated ? emulatedLauncher() : launcherCommand(runtime);
    const [command = 'sh', ...args] = [...(options.prefix ?? []), ...launcher];
    const child = spawn(command, args, { env: options.env, stdio: 'pipe' });
    await once(child, 'spawn');
    await testedWith(`server-${options.runtime}`, () => runtimeVersion(options.runtime));
    return new RunningServer(child, payload, options.setup);
  }

  /** Waits for the first frame that fits, leaving others where they are. */
  async take(fits: (frame: WireFrame) => boolean): Promise<WireFrame> {
    for (;;) {
      const at = this.#inbox.findIndex(fits);
      if (at >= 0) return this.#inbox.splice(at, 1)[0]!;
      if (this.#ended) throw new Error(`the server ended; it said: ${this.said}`);
      await this.#change();
    }
  }

  /** Waits for a frame of a type, of one stream if given. */
  next(type: number, stream?: number): Promise<WireFrame> {
    return this.take((frame) => frame.type === type && (stream === undefined || frame.stream === stream));
  }

  /** Waits for so many PINGs more. */
  async pinged(count: number): Promise<void> {
    const wanted = this.pings + count;
    while (this.pings < wanted) {
      if (this.#ended) throw new Error(`the server ended; it said: ${this.said}`);
      await this.#change();
    }
  }

  /** The frames that have come and were not taken. */
  get waiting(): readonly WireFrame[] {
    return this.#inbox;
  }

  /** Waits for what the server says on stderr. */
  async says(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.said)) {
      if (this.#ended) throw new Error(`the server ended; it said: ${this.said}`);
      await this.#change();
    }
  }

  /** Waits until a file is there. */
  async waitForFile(path: string): Promise<void> {
    while (!existsSync(path)) {
      if (this.#ended) throw new Error(`the server ended; it said: ${this.said}`);
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

  /** Waits for READY and makes the sockets as a host does. */
  async ready(options: { keys?: string | Buffer | Promise<Buffer> } = {}): Promise<ReadyFacts> {
    const { gpg = false, ssh = false, trust = [], probeMs, ...setup } = this.#setup;
    const facts = JSON.parse((await this.next(READY)).payload.toString()) as ReadyFacts;
    this.#operations = new WireOperations(this, facts);
    const keys = Promise.resolve(options.keys ?? '').then((bytes) => ({ keys: Buffer.from(bytes), trust }));
    const log = (text: string) => this.#hear(`${text}\n`);
    const served = await serveSockets(this.#operations, {
      gpg,
      ssh,
      keys,
      probeTimeoutMs: probeMs,
      ...setup,
      log,
    });
    return { ...facts, ...served };
  }

  /** The operations of the target, once it is ready. */
  get operations(): TargetOperations {
    if (!this.#operations) throw new Error('the server is not ready');
    return this.#operations;
  }

  call(fields: readonly (string | Buffer)[]): Promise<Buffer[]> {
    this.#lastCall += 1;
    this.send(CALL, this.#lastCall, encodeFields(fields));
    return new Promise((resolve) => this.#calls.set(this.#lastCall, resolve));
  }

  async sendInput(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += 65_536) this.send(PUBKEY, 0, bytes.subarray(at, at + 65_536));
  }

  on(_event: 'changed', listener: (socketType: string) => void): void {
    this.#onChanged.push(listener);
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
    for (const frame of this.#reader.push(bytes)) this.#onFrame(frame);
    this.#wake();
  }

  #onFrame(frame: WireFrame): void {
    const { type, stream, payload } = frame;
    if (type === RESULT) this.#calls.get(stream)?.(decodeFields(payload) ?? []);
    else if (type === PING) {
      this.pings += 1;
      if (this.answersPings) this.send(PONG, 0);
    } else if (type === CHANGED) for (const tell of this.#onChanged) tell(payload.toString());
    else this.#inbox.push(frame);
  }

  #hear(text: string): void {
    this.said += text;
    this.#wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#changed.splice(0)) resolve();
  }
}
