import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import { describeFailure, type ProgramResult, runProgram } from '@gpg-bridge/core/process/run-program';
import { checkContainerName, containerNotFound } from './container-errors.ts';
import {
  parseContainerDetails,
  parseContainerIds,
  parseContainerInfo,
  parseImageLabels,
} from './container-info.ts';
import { endChild } from './end-child.ts';
import type {
  AttachOptions,
  ContainerDetails,
  ContainerInfo,
  Engine,
  EngineKind,
  EventFilter,
  ExecOptions,
  ExecStream,
  ExitInfo,
} from './engine.ts';
import { eventNames, eventStream } from './event-stream.ts';
import { fileInTar } from './tar.ts';

/** Options for `CommandEngine`. */
export interface CommandEngineOptions {
  /** Where the command finds its engine: DOCKER_HOST, contexts, CONTAINER_HOST. */
  env?: NodeJS.ProcessEnv;
  /** Whether the command still leads to the engine that it led to at first; yes, unless said. */
  isStill?: () => Promise<boolean>;
}

/** What `inspect` of a container with a long configuration prints has some tens of KiB. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** A command that reaches its engine over ssh may have a person answer a question first. */
const ANSWER_TIMEOUT_MS = 600_000;

/** Both engines' words for a container that they don't have. */
const NO_SUCH_CONTAINER = /no such (container|object)|no container with name or id/i;

/**
 * An engine reached through its own command, which knows contexts, TLS and ssh. A container that is not
 * running shows as the command's words on `stderr` and its exit status.
 */
export class CommandEngine implements Engine {
  private readonly env: NodeJS.ProcessEnv;
  private readonly isStill: () => Promise<boolean>;

  constructor(
    readonly kind: EngineKind,
    options: CommandEngineOptions = {},
  ) {
    this.env = options.env ?? process.env;
    this.isStill = options.isStill ?? (async () => true);
  }

  async checkAddress(): Promise<void> {
    if (await this.isStill()) return;
    throw this.unreachable('its configuration leads to another engine by now');
  }

  async ping(): Promise<void> {
    const output = await this.run(['version', '--format={{json .}}']);
    if (output.status !== 0) throw this.unreachable(lastLine(output.stderr));
  }

  async inspectContainer(nameOrId: string): Promise<ContainerInfo> {
    return parseContainerInfo(this.kind, await this.containerDocument(nameOrId));
  }

  async describeContainer(id: string): Promise<ContainerDetails> {
    return parseContainerDetails(this.kind, await this.containerDocument(id));
  }

  async imageLabels(image: string): Promise<ReadonlyMap<string, string>> {
    const output = await this.run(['image', 'inspect', image]);
    if (output.status === 0) return parseImageLabels(firstDescription(output.stdout));
    throw this.unreachable(lastLine(output.stderr));
  }

  async containerIds(): Promise<string[]> {
    const { status, stdout, stderr } = await this.run(['ps', '--quiet', '--no-trunc']);
    if (status !== 0) throw this.unreachable(lastLine(stderr));
    return parseContainerIds(stdout.toString().split('\n'));
  }

  private async containerDocument(nameOrId: string): Promise<unknown> {
    checkContainerName(this.kind, nameOrId);
    const output = await this.run(['container', 'inspect', nameOrId]);
    if (output.status === 0) return firstDescription(output.stdout);
    const reason = lastLine(output.stderr);
    if (NO_SUCH_CONTAINER.test(reason)) throw containerNotFound(this.kind, nameOrId, reason);
    throw this.unreachable(reason);
  }

  async containerNames(): Promise<string[]> {
    const { status, stdout } = await this.run(['ps', '--format={{.Names}}']);
    return status === 0 ? stdout.toString().split(/[\n,]/).filter(Boolean) : [];
  }

  async readFile(container: string, path: string): Promise<Buffer | undefined> {
    checkContainerName(this.kind, container);
    const { status, stdout } = await this.run(['cp', `${container}:${path}`, '-']);
    return status === 0 ? fileInTar(stdout) : undefined;
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

  async attach(container: string, argv: readonly string[], options: AttachOptions): Promise<ExitInfo> {
    checkContainerName(this.kind, container);
    const { attachProcess } = await import('./attach.ts');
    const words = [
      'exec',
      '--interactive',
      ...(options.terminal ? ['--tty'] : []),
      ...(options.user === undefined ? [] : [`--user=${options.user}`]),
      container,
      ...argv,
    ];
    return attachProcess(this.kind, words, this.env, options.gate);
  }

  async events(filter: EventFilter): Promise<Readable> {
    // The command does not tell when it has subscribed. With the engine's present time as --since it also
    // prints what happened before it had.
    const since = await this.engineTime();
    const child = await this.spawn([
      'events',
      `--since=${since}`,
      '--filter=type=container',
      ...(filter.container === undefined ? [] : [`--filter=container=${filter.container}`]),
      ...eventNames(this.kind, filter).map((name) => `--filter=event=${name}`),
      '--format={{json .}}',
    ]);
    child.stdin.end();
    child.stderr.resume();
    return eventStream(child.stdout, filter, () => child.kill());
  }

  private async engineTime(): Promise<string> {
    const now = new Date().toISOString();
    if (this.kind === 'podman') return now; // `podman info` has no time; its engine is nearly always this machine
    const output = await this.run(['info', '--format={{.SystemTime}}']);
    const told = output.stdout.toString().trim();
    return output.status === 0 && told ? told : now;
  }

  private async run(args: readonly string[]): Promise<ProgramResult> {
    const limits = { timeoutMs: ANSWER_TIMEOUT_MS, maxOutput: MAX_OUTPUT_BYTES };
    const result = await runProgram(this.kind, args, { env: this.env, ...limits }).catch((error: unknown) => {
      throw this.notStarted(error);
    });
    if (result.aborted) throw this.unreachable(describeFailure(result));
    return result;
  }

  private async spawn(args: readonly string[]): Promise<ChildProcessWithoutNullStreams> {
    const child = spawn(this.kind, args, { env: this.env, stdio: 'pipe', windowsHide: true });
    try {
      await once(child, 'spawn');
    } catch (error) {
      throw this.notStarted(error);
    }
    child.stdin.on('error', () => {}); // a command that ended early is seen by its exit
    return child;
  }

  private notStarted(error: unknown): BridgeError {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return this.unreachable(missing ? `there is no command ${this.kind} on PATH` : String(error), error);
  }

  private unreachable(why: string, cause?: unknown): BridgeError {
    return new BridgeError('ENGINE_UNREACHABLE', {
      what: `${this.kind} can't be reached`,
      why: why.replace(/\.$/, '') || `the command ${this.kind} failed without a word`,
      fix: `See whether \`${this.kind} version\` works here.`,
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

/** The first of the descriptions that `inspect` prints; undefined if it is none. */
function firstDescription(printed: Buffer): unknown {
  try {
    const descriptions: unknown = JSON.parse(printed.toString());
    return Array.isArray(descriptions) ? descriptions[0] : undefined;
  } catch {
    return undefined;
  }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
