import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import { checkContainerName, containerNotFound } from './container-errors.ts';
import { parseContainerInfo } from './container-info.ts';
import { endChild } from './end-child.ts';
import type {
  ContainerInfo,
  Engine,
  EngineKind,
  EventFilter,
  ExecOptions,
  ExecStream,
  ExitInfo,
} from './engine.ts';
import { eventNames, eventStream } from './event-stream.ts';

/** Options for `CommandEngine`. */
export interface CommandEngineOptions {
  /** Where the command finds its engine: DOCKER_HOST, contexts, CONTAINER_HOST. */
  env?: NodeJS.ProcessEnv;
  /** The command, when it is not the engine's name on PATH. */
  program?: string;
}

interface Output {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** What `inspect` of a container with a long configuration prints has some tens of KiB. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

/** Both engines' words for a container that they don't have. */
const NO_SUCH_CONTAINER = /no such (container|object)|no container with name or id/i;

/**
 * An engine reached through its own command, which knows contexts, TLS and ssh. A container that is not
 * running shows as the command's words on `stderr` and its exit status.
 */
export class CommandEngine implements Engine {
  private readonly env: NodeJS.ProcessEnv;
  private readonly program: string;

  constructor(
    readonly kind: EngineKind,
    options: CommandEngineOptions = {},
  ) {
    this.env = options.env ?? process.env;
    this.program = options.program ?? kind;
  }

  async ping(): Promise<void> {
    const output = await this.run(['version', '--format={{json .}}']);
    if (output.status !== 0) throw this.unreachable(lastLine(output.stderr));
  }

  async inspectContainer(nameOrId: string): Promise<ContainerInfo> {
    checkContainerName(this.kind, nameOrId);
    const output = await this.run(['container', 'inspect', nameOrId]);
    if (output.status === 0)
      return parseContainerInfo(this.kind, (JSON.parse(output.stdout) as unknown[])[0]);
    const reason = lastLine(output.stderr);
    if (NO_SUCH_CONTAINER.test(reason)) throw containerNotFound(this.kind, nameOrId, reason);
    throw this.unreachable(reason);
  }

  async exec(container: string, argv: readonly string[], options: ExecOptions = {}): Promise<ExecStream> {
    checkContainerName(this.kind, container);
    const child = await this.spawn([
      'exec',
      '--interactive',
      ...(options.user === undefined ? [] : [`--user=${options.user}`]),
      container,
      ...argv,
    ]);
    return new CommandExecStream(child);
  }

  async events(filter: EventFilter): Promise<Readable> {
    // The command does not say when it has begun to listen. It is told the engine's own time as of now, so
    // that it tells what happened meanwhile too.
    const since = await this.engineTime();
    const child = await this.spawn([
      'events',
      `--since=${since}`,
      '--filter=type=container',
      `--filter=container=${filter.container}`,
      ...eventNames(this.kind, filter).map((name) => `--filter=event=${name}`),
      '--format={{json .}}',
    ]);
    child.stdin.end();
    child.stderr.resume();
    return eventStream(child.stdout, filter, () => child.kill());
  }

  private async engineTime(): Promise<string> {
    const now = new Date().toISOString();
    if (this.kind === 'podman') return now; // does not tell; its engine is nearly always this machine
    const output = await this.run(['info', '--format={{.SystemTime}}']);
    return output.status === 0 && output.stdout.trim() ? output.stdout.trim() : now;
  }

  private async run(args: readonly string[]): Promise<Output> {
    const child = await this.spawn(args);
    child.stdin.end();
    const closed = once(child, 'close') as Promise<[number | null]>;
    const [stdout, stderr] = await Promise.all([collect(child, child.stdout), collect(child, child.stderr)]);
    const [status] = await closed;
    return { status, stdout, stderr };
  }

  private async spawn(args: readonly string[]): Promise<ChildProcessWithoutNullStreams> {
    const child = spawn(this.program, args, { env: this.env, stdio: 'pipe', windowsHide: true });
    try {
      await once(child, 'spawn');
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      throw this.unreachable(missing ? `there is no command ${this.program} on PATH` : String(error), error);
    }
    child.stdin.on('error', () => {}); // a command that ended early is seen by its exit
    return child;
  }

  private unreachable(why: string, cause?: unknown): BridgeError {
    return new BridgeError('ENGINE_UNREACHABLE', {
      what: `${this.kind} can't be reached`,
      why: why.replace(/\.$/, '') || `the command ${this.program} failed without a word`,
      fix: `See whether \`${this.program} version\` works here.`,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

class CommandExecStream implements ExecStream {
  readonly exited: Promise<ExitInfo>;

  constructor(private readonly child: ChildProcessWithoutNullStreams) {
    this.exited = new Promise((resolve) => {
      child.once('close', (status, signal) => resolve({ status, signal }));
    });
  }

  get stdin() {
    return this.child.stdin;
  }

  get stdout() {
    return this.child.stdout;
  }

  get stderr() {
    return this.child.stderr;
  }

  kill(): void {
    endChild(this.child);
  }
}

async function collect(child: ChildProcess, stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_OUTPUT_BYTES) child.kill();
    else chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
