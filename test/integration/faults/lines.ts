import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { childrenOf, PROGRAM, processesWith, untilGone } from '@gpg-bridge/test-support/cli';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { within } from '@gpg-bridge/test-support/within';
import { expect } from 'vitest';
import { PATIENCE_MS, PROGRAMS, Program, until } from './programs.ts';
import type { Cell, ProcessName } from './table.ts';

/** A heartbeat that gives a silent line up after two seconds or a little more. */
export const FREEZING = '400';

/** One way from a client to the host's agent, with all of its processes. */
export interface Line {
  /** Where clients connect. */
  path: string;
  /** The process of this name; throws if this way has none. */
  pid(name: ProcessName): number;
  /** What a person does after a process was lost, if anything: `up` again, another extension host. */
  restore(lost: Cell): Promise<void>;
  /** Returns when the host has given the line up. */
  givenUp(): Promise<void>;
  /** A signature is made in the target, and is good. */
  sign(): Promise<void>;
  /** Ends it, and checks that nothing of it is left. */
  end(): Promise<void>;
}

/** Signs in a home on this machine, as gpg does there. */
async function signIn(home: string, inherited: NodeJS.ProcessEnv): Promise<void> {
  const env = { ...inherited, GNUPGHOME: home };
  const gpg = (args: string[], input: string) =>
    runOk('gpg', ['--batch', '--no-tty', '--no-autostart', ...args], { env, input });
  const signed = await gpg(['--clear-sign'], 'hello\n');
  expect(await gpg(['--status-fd', '1', '--verify'], signed)).toContain('GOODSIG');
}

/** Returns when no daemon has a PID file in a state directory. */
export async function untilNoDaemon(stateDir: string): Promise<void> {
  for (const name of await readdir(stateDir)) {
    if (!name.endsWith('.pid')) continue;
    await within(PATIENCE_MS, untilGone(join(stateDir, name)), `the daemon of ${name} did not end`);
  }
}

/** Where a line is made. */
export interface Place {
  /** A directory of its own. */
  dir: string;
  /** The environment of the host, with its GNUPGHOME. */
  env: NodeJS.ProcessEnv;
}

/** How a line to a home on this machine is made. */
interface BridgeLineOptions {
  /** Another program carries the bytes. */
  carried?: boolean;
  flags?: readonly string[];
  heartbeat?: string;
}

/** `gpg-bridge up` to a home on this machine, directly or through a program that carries the bytes. */
export class BridgeLine implements Line {
  readonly home: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #stateDir: string;
  readonly #names: readonly string[];
  readonly #flags: readonly string[];
  readonly #pids = new Map<ProcessName, number>();

  private constructor(
    place: Place,
    private readonly carried: boolean,
    flags: readonly string[],
    heartbeat: string | undefined,
  ) {
    this.home = join(place.dir, 'h');
    this.#stateDir = join(place.dir, 's');
    this.#env = {
      ...place.env,
      GPG_BRIDGE_STATE_DIR: this.#stateDir,
      ...(heartbeat ? { GPG_BRIDGE_HEARTBEAT: heartbeat } : {}),
    };
    const relay = `env GNUPGHOME=${this.home} ${process.execPath} ${join(PROGRAMS, 'relay.mjs')}`;
    this.#names = carried ? ['--exec', relay] : [`local:${this.home}`];
    const { HELD_SOCKET } = place.env;
    this.#flags = HELD_SOCKET ? [...flags, `--gpg-socket=${HELD_SOCKET}`] : flags;
  }

  /** A line for a cell: with a program that carries the bytes where that, or a server without a daemon, is meant. */
  static for({ process, fault }: Cell, place: Place, ...flags: string[]): Promise<BridgeLine> {
    const isFrozen = fault === 'frozen';
    const carried = process === 'exec' || (process === 'server' && isFrozen);
    return BridgeLine.start(place, { carried, flags, ...(isFrozen ? { heartbeat: FREEZING } : {}) });
  }

  static async start(place: Place, { carried = false, flags = [], heartbeat }: BridgeLineOptions = {}) {
    const line = new BridgeLine(place, carried, flags, heartbeat);
    await mkdir(line.home, { mode: 0o700 });
    await line.up();
    return line;
  }

  get path(): string {
    return join(this.home, 'S.gpg-agent');
  }

  pid(name: ProcessName): number {
    const pid = this.#pids.get(name);
    if (pid === undefined) throw new Error(`this way has no ${name}`);
    return pid;
  }

  async up(): Promise<void> {
    const { pid } = JSON.parse(await this.#run('up', ...this.#names, '--json', ...this.#flags)) as {
      pid: number;
    };
    this.#pids.set('daemon', pid);
    const children = await this.#children(pid);
    if (!this.carried) this.#pids.set('server', children[0]!);
    else {
      this.#pids.set('exec', children[0]!);
      this.#pids.set('server', (await this.#children(children[0]!))[0]!);
    }
  }

  async restore({ process, fault }: Cell): Promise<void> {
    if (process === 'client' || process === 'agent') return;
    // A daemon that lost its target ends by itself.
    if (process !== 'daemon' || fault !== 'killed') await this.givenUp();
    await this.up();
  }

  sign(): Promise<void> {
    return signIn(this.home, this.#env);
  }

  async status(): Promise<{ sessions: { open: number; total: number }; bytes: { toHost: number } }> {
    // It ends with 1 while the agent stands still: the bridge does not work then.
    const args = [PROGRAM, 'status', ...this.#names, '--json'];
    return JSON.parse((await run(process.execPath, args, { env: this.#env })).stdout.toString())[0];
  }

  async end(): Promise<void> {
    await this.#run('down', ...this.#names);
    await this.givenUp();
    const left = (await readdir(this.#stateDir)).filter((name) => !/\.(log(\.1)?|uses)$/.test(name));
    expect(left, 'files in the state directory').toEqual([]);
    const sockets = (await readdir(this.home)).filter((name) => /^(S\.|\.gb|agent\.sock)/.test(name));
    expect(sockets, 'sockets in the target').toEqual([]);
    // An agent that the daemon started has its environment, and stays with its home.
    await until('no process is left', async () =>
      (await processesWith(`GPG_BRIDGE_STATE_DIR=${this.#stateDir}\0`)).every(({ command }) =>
        /(^|\/)(gpg-agent|scdaemon) /.test(command),
      ),
    );
  }

  givenUp(): Promise<void> {
    return untilNoDaemon(this.#stateDir);
  }

  async #children(pid: number): Promise<number[]> {
    let children: number[] = [];
    // Programs that the host ran for the start may be ending.
    await until('one child', async () => (children = await childrenOf(pid)).length === 1);
    return children;
  }

  #run(...args: string[]): Promise<string> {
    return runOk(process.execPath, [PROGRAM, ...args], { env: this.#env });
  }
}

/** Milliseconds between two pings, and how long one may stay without an answer. */
const QUICK_PINGS = ['500', '2000'];

/** The bundles of the two extension hosts. */
export interface HostScripts {
  request: string;
  agent: string;
}

/** Two extension hosts, each a process, with RequestProxy in the one and AgentProxy in the other. */
export class ExtensionLine implements Line {
  readonly home: string;
  readonly #carrier: string;
  #agentHost!: Program;
  #requestHost!: Program;

  private constructor(
    private readonly place: Place,
    private readonly scripts: HostScripts,
    private readonly pings: readonly string[],
  ) {
    this.home = join(place.dir, 'h');
    this.#carrier = join(place.dir, 'carrier');
  }

  static async start(place: Place, scripts: HostScripts, { fault }: Cell): Promise<ExtensionLine> {
    const line = new ExtensionLine(place, scripts, fault === 'frozen' ? QUICK_PINGS : []);
    await mkdir(line.home, { mode: 0o700 });
    const env = { ...place.env, GNUPGHOME: line.home };
    const gpg = (args: string[], input: string | Buffer) =>
      runOk('gpg', ['--batch', '--no-autostart', ...args], { env, input });
    await gpg(['--import'], (await run('gpg', ['--export'], { env: place.env })).stdout);
    await gpg(['--import-ownertrust'], await runOk('gpg', ['--export-ownertrust'], { env: place.env }));
    await line.#startAgentHost();
    await line.#startRequestHost();
    return line;
  }

  get path(): string {
    return join(this.home, 'S.gpg-agent');
  }

  pid(name: ProcessName): number {
    if (name === 'agent-host') return this.#agentHost.pid;
    if (name === 'request-host') return this.#requestHost.pid;
    throw new Error(`this way has no ${name}`);
  }

  async restore({ process, fault }: Cell): Promise<void> {
    if (fault === 'frozen') await this.#requestHost.says('listening again');
    else if (process === 'agent-host') await this.#startAgentHost();
    else if (process === 'request-host') await this.#startRequestHost();
  }

  async givenUp(): Promise<void> {
    await this.#requestHost.says('let go');
  }

  sign(): Promise<void> {
    return signIn(this.home, this.place.env);
  }

  async end(): Promise<void> {
    await this.#requestHost.end();
    await this.#agentHost.end();
    expect(existsSync(this.path), 'the socket in the target').toBe(false);
    expect((await readdir(this.home)).filter((name) => name.startsWith('.gb'))).toEqual([]);
  }

  async #startAgentHost(): Promise<void> {
    await run('rm', ['-f', this.#carrier]);
    this.#agentHost = new Program(this.scripts.agent, [this.#carrier], this.place.env);
    await this.#agentHost.says('listening');
  }

  async #startRequestHost(): Promise<void> {
    const env = { ...this.place.env, GNUPGHOME: this.home };
    this.#requestHost = new Program(this.scripts.request, [this.#carrier, ...this.pings], env);
    await this.#requestHost.says('listening');
  }
}
