import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, watch } from 'node:fs';
import { copyFile, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { GnupgHome } from './gnupg-home.ts';
import { type Finished, type RunOptions, run } from './process.ts';
import { makeTempDir } from './temp.ts';

/** The built command; `npm test` builds it first. */
export const PROGRAM =
  process.env.GPG_BRIDGE_PROGRAM ?? fileURLToPath(new URL('../../cli/dist/gpg-bridge.js', import.meta.url));

/** How long processes that are ending may take; far more than they need. */
const LEAVING_MS = 20_000;

/** What a person who uses the command has. */
export interface PersonOptions {
  /** Makes a signing key; without one the home has an agent and nothing else. */
  key?: boolean;
  /** Starts from this environment, e.g. one in which an engine is found. */
  env?: NodeJS.ProcessEnv;
  agentConf?: string;
  /** A keyring to begin with. */
  pubring?: string;
}

/**
 * Somebody at the host: a home of GnuPG, a state directory, and the built command. At the end of the test
 * every bridge is ended and every process that came of it has to be gone.
 */
export class Person {
  fingerprint = '';
  readonly #targets: GnupgHome[] = [];

  private constructor(
    readonly home: GnupgHome,
    readonly stateDir: string,
    public env: NodeJS.ProcessEnv,
  ) {}

  static async create(options: PersonOptions = {}): Promise<Person> {
    const home = await GnupgHome.create(options.agentConf);
    const stateDir = join(await makeTempDir(), 'state');
    const { SSH_AUTH_SOCK: _agent, NO_COLOR: _colour, ...env } = { ...home.env, ...options.env };
    const person = new Person(home, stateDir, {
      ...env,
      HOME: home.env.HOME,
      GNUPGHOME: home.dir,
      LC_ALL: 'C',
      GPG_BRIDGE_STATE_DIR: stateDir,
    });
    onTestFinished(() => person.leave());
    if (options.pubring) await copyFile(options.pubring, join(home.dir, 'pubring.kbx'));
    if (options.key ?? true) person.fingerprint = await home.createKey('Ada Test <ada@example.org>');
    return person;
  }

  /** Runs the command to its end. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    return run(process.execPath, [PROGRAM, ...args], { ...options, env: { ...this.env, ...options.env } });
  }

  /** Runs the command, which has to succeed; returns what it printed. */
  async ok(...args: string[]): Promise<string> {
    const done = await this.run(args);
    if (done.status !== 0)
      throw new Error(`gpg-bridge ${args.join(' ')} ended with ${done.status}:\n${done.stderr}`);
    return done.stdout.toString();
  }

  /** Runs the command with --json. */
  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.ok(...args, '--json')) as T;
  }

  /** Starts the command and leaves it running; it is killed with the test if it still runs then. */
  start(args: readonly string[], options: RunOptions = {}): Started {
    return new Started(
      spawn(process.execPath, [PROGRAM, ...args], {
        env: { ...this.env, ...options.env },
        cwd: options.cwd,
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    );
  }

  /** The files in the state directory. */
  files(): Promise<string[]> {
    return readdir(this.stateDir).catch(() => []);
  }

  /** The path of the only file in the state directory that ends so. */
  async file(ending: string): Promise<string> {
    const found = (await this.files()).filter((name) => name.endsWith(ending));
    if (found.length !== 1) throw new Error(`${found.length} files end in ${ending}: ${await this.files()}`);
    return join(this.stateDir, found[0]!);
  }

  /** Resolves when every daemon has ended by itself. */
  async settled(): Promise<void> {
    for (const name of await this.files()) {
      if (name.endsWith('.pid')) await untilGone(join(this.stateDir, name));
    }
  }

  /** A GNUPGHOME for a `local:` target, removed at the end, after the bridges. */
  async localHome(): Promise<GnupgHome> {
    const home = await GnupgHome.create();
    this.#targets.push(home);
    return home;
  }

  private async leave(): Promise<void> {
    const down = await this.run(['down', '--all']);
    for (const home of [...this.#targets, this.home]) await home.remove();
    // A daemon has let go of everything a moment before its process ends.
    const mine = () => processesWith(`GPG_BRIDGE_STATE_DIR=${this.stateDir}\0`);
    let left = await mine();
    for (const end = Date.now() + LEAVING_MS; left.length > 0 && Date.now() < end; left = await mine());
    for (const { pid } of left) process.kill(pid, 'SIGKILL');
    await rm(dirname(this.stateDir), { recursive: true, force: true });
    if (down.status !== 0) throw new Error(`gpg-bridge down --all: ${down.stderr}`);
    if (left.length > 0) throw new Error(`still running: ${left.map(({ command }) => command).join('; ')}`);
  }
}

/** A command that runs. */
export class Started {
  stdout = '';
  stderr = '';
  readonly exited: Promise<number | null>;

  constructor(readonly child: ChildProcessByStdio<null, Readable, Readable>) {
    this.exited = once(child, 'close').then(([status]) => status as number | null);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    // Not `exited`: a process of its own that still runs may hold its outputs open.
    const gone = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await gone;
      for (const output of [child.stdout, child.stderr]) output.destroy();
    });
  }

  /** Resolves when what it has printed matches; rejects if it ends before that. */
  async printed(
    pattern: RegExp | ((printed: string) => boolean),
    from: 'stdout' | 'stderr' = 'stdout',
  ): Promise<void> {
    const matches = () => (pattern instanceof RegExp ? pattern.test(this[from]) : pattern(this[from]));
    const ended = this.exited.then(() => 'ended');
    while (!matches()) {
      if ((await Promise.race([once(this.child[from], 'data'), ended])) !== 'ended') continue;
      if (matches()) return;
      throw new Error(`it ended without ${pattern}:\n${this.stdout}${this.stderr}`);
    }
  }
}

/** Resolves when there is nothing at a path any more. */
export async function untilGone(path: string): Promise<void> {
  await new Promise<void>((resolve) => {
    const look = () => {
      if (existsSync(path)) return;
      watcher.close();
      resolve();
    };
    const watcher = watch(dirname(path), look);
    look();
  });
}

/** The processes that a process started. */
export async function childrenOf(pid: number): Promise<number[]> {
  return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).split(' ').filter(Boolean).map(Number);
}

/** What a daemon runs beside its server, now and then; `node` is what any child is called before it is its program. */
const NOT_A_SERVER: ReadonlySet<string> = new Set(['node', 'gpg', 'gpgsm', 'gpgconf', 'gpg-connect-age', '']);

/** The socket server of a `local:` bridge, by the process of its daemon. */
export async function serverOf(pid: number): Promise<number> {
  for (;;) {
    for (const child of await childrenOf(pid)) {
      const name = await readFile(`/proc/${child}/comm`, 'latin1').catch(() => '');
      if (!NOT_A_SERVER.has(name.trim())) return child;
    }
    await delay(10); // nothing tells when a process has another name
  }
}

/** Processes whose environment has this in it: whatever a test started, and what came of that. */
export async function processesWith(marker: string): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const read = (file: string) => readFile(`/proc/${name}/${file}`, 'latin1').catch(() => '');
    // A zombie has neither: it has ended, and whoever started it has not looked yet.
    if ((await read('environ')).includes(marker)) {
      found.push({ pid: Number(name), command: (await read('cmdline')).replaceAll('\0', ' ').slice(0, 200) });
    }
  }
  return found;
}
