import { randomBytes } from 'node:crypto';
import { DidNotEnd, type Finished, outputOf, type RunOptions, run } from '../process.ts';
import { firstVersion, testedWith } from '../tested-with.ts';
import type { ImageName } from './images.ts';

/** How to reach a running engine with its own command. Plain data: it crosses process borders. */
export interface EngineAddress {
  program: 'docker' | 'podman';
  /** The whole environment in which `program`, and anything of ours, finds this engine. */
  env: NodeJS.ProcessEnv;
  /** The Engine API's socket. */
  socketPath: string;
  /** Arguments that `run` needs with this engine. */
  runArgs: readonly string[];
}

/** What a container is made from. */
export interface ContainerOptions {
  image?: ImageName;
  name?: string;
  /** The container's own user, as `docker run --user` takes it. */
  user?: string;
  env?: Record<string, string>;
  /** Further arguments of `run`. */
  args?: readonly string[];
}

/** Who runs a command in a container, with what. */
export interface ExecOptions extends RunOptions {
  user?: string;
}

/**
 * The first process of every container: it ends at once on SIGTERM, which `sleep` as process 1 would
 * ignore, and it reaps orphans.
 */
const IDLE = 'trap "exit 0" TERM; while :; do sleep infinity & wait; done';

/** How long a command may take at an engine that left the last one without an answer. */
const STUCK_LIMIT_MS = 20_000;

/** A real engine, whoever started it. */
export class ContainerEngine {
  /** Whether the last command did not end: then each of the next, and of the cleanups, would cost all its time. */
  #isStuck = false;

  constructor(
    readonly address: EngineAddress,
    private readonly importImage: (name: ImageName) => Promise<string>,
  ) {}

  /** The environment in which `docker`, `podman` and the bridge find this engine. */
  get env(): NodeJS.ProcessEnv {
    return this.address.env;
  }

  /** The Engine API's socket. */
  get socketPath(): string {
    return this.address.socketPath;
  }

  /** Runs the engine's command; never throws for a bad status. */
  async run(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    const limit = this.#isStuck ? { limitMs: STUCK_LIMIT_MS } : {};
    try {
      const env = { ...this.env, ...options.env };
      const done = await run(this.address.program, args, { ...options, ...limit, env });
      this.#isStuck = false;
      return done;
    } catch (error) {
      this.#isStuck = error instanceof DidNotEnd;
      throw error;
    }
  }

  /** Runs the engine's command, which has to succeed; returns its output. */
  async runOk(args: readonly string[], options: RunOptions = {}): Promise<string> {
    return outputOf(this.address.program, args, await this.run(args, options));
  }

  /** What the engine says its version is. */
  async version(): Promise<string> {
    // Docker's `version` asks for the networking of an engine that a user started, which may have none of its own.
    const words =
      this.address.program === 'docker'
        ? ['info', '--format={{.ServerVersion}}']
        : ['version', '--format={{.Server.Version}}'];
    return firstVersion(await this.runOk(words));
  }

  /** Imports an image unless the engine has it, and returns its name there. */
  ensureImage(name: ImageName): Promise<string> {
    return this.importImage(name);
  }

  /** Kills and removes every container. */
  protected async removeContainers(): Promise<void> {
    const found = await this.tryRun(['ps', '--all', '--quiet']);
    const containers = found?.stdout.toString().split('\n').filter(Boolean) ?? [];
    if (containers.length > 0) await this.tryRun(['rm', '--force', '--volumes', ...containers]);
  }

  /** Runs a command of an engine that is about to be ended: that has to work also if it does not answer. */
  protected async tryRun(args: readonly string[]): Promise<Finished | undefined> {
    try {
      return await this.run(args);
    } catch (error) {
      if (error instanceof DidNotEnd) return undefined;
      throw error;
    }
  }

  /** Starts an idle container without a network. The caller removes it. */
  async startContainer(options: ContainerOptions = {}): Promise<Container> {
    const image = await this.ensureImage(options.image ?? 'git');
    const name = options.name ?? `gb-${randomBytes(6).toString('hex')}`;
    const id = await this.runOk([
      'run',
      '--detach',
      '--network=none',
      `--name=${name}`,
      ...(options.user === undefined ? [] : [`--user=${options.user}`]),
      ...Object.entries(options.env ?? {}).map(([key, value]) => `--env=${key}=${value}`),
      ...this.address.runArgs,
      ...(options.args ?? []),
      image,
      'sh',
      '-c',
      IDLE,
    ]);
    const container = new Container(this, id.trim(), name);
    const inside = options.image ?? 'git';
    if (inside !== 'engines') {
      await testedWith(
        `image-${inside}`,
        async () => `GnuPG ${firstVersion(await container.execOk(['gpg', '--version'], { user: 'root' }))}`,
      );
    }
    return container;
  }
}

/** One running container. */
export class Container {
  constructor(
    readonly engine: ContainerEngine,
    readonly id: string,
    readonly name: string,
  ) {}

  /** Runs a command inside to its end; never throws for a bad status. */
  exec(argv: readonly string[], options: ExecOptions = {}): Promise<Finished> {
    const { user, env, input } = options;
    return this.engine.run(
      [
        'exec',
        '--interactive',
        ...(user === undefined ? [] : [`--user=${user}`]),
        ...Object.entries(env ?? {}).map(([key, value]) => `--env=${key}=${value}`),
        this.id,
        ...argv,
      ],
      input === undefined ? {} : { input },
    );
  }

  /** Runs a command inside that has to succeed; returns its output. */
  async execOk(argv: readonly string[], options: ExecOptions = {}): Promise<string> {
    const done = await this.exec(argv, options);
    if (done.status !== 0) {
      throw new Error(`in ${this.name}: ${argv.join(' ')} ended with ${done.status}:\n${done.stderr}`);
    }
    return done.stdout.toString();
  }

  /** Copies a file or directory of this machine to a path inside. */
  async copyIn(source: string, destination: string): Promise<void> {
    await this.engine.runOk(['cp', source, `${this.id}:${destination}`]);
  }

  /** Copies a file or directory from inside to a path of this machine. */
  async copyOut(source: string, destination: string): Promise<void> {
    await this.engine.runOk(['cp', `${this.id}:${source}`, destination]);
  }

  /** Process 1 as this machine sees it: its namespaces are the container's. */
  async pid(): Promise<number> {
    return Number(await this.engine.runOk(['inspect', '--format={{.State.Pid}}', this.id]));
  }

  /** Kills and removes it; one that is gone already is fine. */
  async remove(): Promise<void> {
    await this.engine.run(['rm', '--force', '--volumes', this.id]);
  }
}
