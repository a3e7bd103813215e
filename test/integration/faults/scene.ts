import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { agentsOf } from '@gpg-bridge/test-support/agent-processes';
import { bundledScript } from '@gpg-bridge/test-support/bundled-script';
import { CIPHERTEXT } from '@gpg-bridge/test-support/ciphertext';
import { processesWith } from '@gpg-bridge/test-support/cli';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { stopProcess } from '@gpg-bridge/test-support/process';
import { makeTempDir, removeDir } from '@gpg-bridge/test-support/temp';
import { within } from '@gpg-bridge/test-support/within';
import { expect } from 'vitest';
import { BridgeLine, type HostScripts, type Place } from './lines.ts';
import { Client, Holder, PATIENCE_MS, PROGRAMS, signal, until } from './programs.ts';
import type { Phase } from './table.ts';
import { masked } from './transcript.ts';

/** What a client says to come to a phase, and what it says then. */
export interface Script {
  before: string;
  rest: string;
  /** All that it is told when nothing goes wrong. */
  everything: string;
}

/** What holds a session in its phase. */
export interface Hold {
  /** Goes there; `connect` makes the client, which then says `before`. */
  reach(connect: () => Client, before: string, line: BridgeLine | undefined): Promise<Client>;
  /** Lets go; does nothing where it was let go already. */
  release(): void;
}

/** The first may be answered by the target's end; the second is not. */
const VERSION = 'GETINFO version\nNOP\n';
const HASH = 'ab'.repeat(32);
/** How long the end of a bridge may take, before the hook that waits for it is cut off. */
const END_MS = 60_000;

/** A host with a key, its agent, and a bridge that has nothing to do with what is tried. */
export class Scene {
  readonly scripts = new Map<Phase, Script>();
  /** The agent that bridges find; it can be held. */
  holder!: Holder;
  #bystander: Client | undefined;
  #bystanderLine!: BridgeLine;
  #places = 0;
  #hosts: HostScripts | undefined;

  private constructor(
    readonly root: string,
    readonly home: GnupgHome,
    readonly agentPath: string,
    private readonly heldPath: string | undefined,
  ) {}

  /**
   * With `held` the bridges find an agent that can be held anywhere, with the real one behind it; else the real
   * one itself, which can be stopped.
   */
  static async create({ held = true } = {}): Promise<Scene> {
    const root = await makeTempDir();
    const agentPath = join(root, 'agent');
    const home = await GnupgHome.create(held ? `extra-socket ${agentPath}\n` : '');
    const fingerprint = await home.createKey('Ada Test <ada@example.org>');
    await home.addEncryptionKey(fingerprint);
    const extra = await home.socket('agent-extra-socket');
    const scene = new Scene(root, home, held ? agentPath : extra, held ? extra : undefined);
    try {
      await scene.startHolder();
      await scene.#learn();
      scene.#bystanderLine = await BridgeLine.start(await scene.place());
      return scene;
    } catch (error) {
      await scene.discard();
      throw error;
    }
  }

  /** Bridges are told which socket to use: gpg-agent.conf names the one behind the holder. */
  get env(): NodeJS.ProcessEnv {
    return this.heldPath ? { ...this.home.env, HELD_SOCKET: this.heldPath } : this.home.env;
  }

  /** A directory for one more line. */
  async place(): Promise<Place> {
    const dir = join(this.root, String(++this.#places));
    await mkdir(dir);
    return { dir, env: this.env };
  }

  async startHolder(): Promise<void> {
    if (this.heldPath) this.holder = await Holder.start(this.heldPath, this.agentPath, this.env);
  }

  /** The real agent's process. */
  async agentPid(): Promise<number> {
    const [pid, another] = await agentsOf(this.home);
    if (pid === undefined || another !== undefined) throw new Error('not one agent');
    return pid;
  }

  async hostScripts(): Promise<HostScripts> {
    const bundle = async (name: string) => {
      const dir = join(this.root, name);
      if (!existsSync(dir)) await mkdir(dir);
      return bundledScript(`import '${join(PROGRAMS, `${name}.ts`)}';`, dir);
    };
    this.#hosts ??= { request: await bundle('request-host'), agent: await bundle('agent-host') };
    return this.#hosts;
  }

  /** Comes to a phase by the agent that can be held. */
  holdByHolder(phase: Phase): Hold {
    const { holder } = this;
    return {
      async reach(connect, before) {
        await holder.hold(phase);
        const client = connect();
        client.tell(before);
        await holder.says('held');
        return client;
      },
      release: () => holder.release(),
    };
  }

  /** Comes to a phase by stopping the real agent; half of an answer can't be had so. */
  holdByStopping(phase: Phase, pid: number): Hold {
    const isStill = phase === 'idle' || phase === 'inquiry';
    return {
      async reach(connect, before, line) {
        if (phase === 'connecting') await stand(pid);
        const openBefore = (await line!.status()).sessions.total;
        const client = connect();
        if (phase === 'connecting') {
          await until('a session', async () => (await line!.status()).sessions.total > openBefore);
          return client;
        }
        await client.reachesAgent();
        if (!isStill) await stand(pid);
        const { toHost } = (await line!.status()).bytes;
        client.tell(before);
        if (phase === 'inquiry') await client.says('INQUIRE');
        else if (before) {
          await until('bytes', async () => (await line!.status()).bytes.toHost >= toHost + before.length);
        }
        return client;
      },
      release() {
        if (!isStill) signal(pid, 'SIGCONT');
      },
    };
  }

  /** Another bridge's session has gone on; after the agent's end it is another session. */
  async otherBridgeGoesOn(): Promise<void> {
    const path = this.#bystanderLine.path;
    if (this.#bystander?.child.exitCode !== null) this.#bystander = new Client(path);
    await this.#bystander.says('OK ');
    this.#bystander.printed = '';
    this.#bystander.tell(VERSION);
    await this.#bystander.says('\nOK\nOK\n');
    expect(this.#bystander.printed).toMatch(/^D 2\.[^\n]*\nOK\nOK\n$/);
    this.#bystander.printed = 'OK ';
  }

  /** Forgets the other bridge's session, which ends with the agent. */
  async otherBridgeEnds(): Promise<void> {
    await this.#bystander?.ends('the session over another bridge did not end with the agent');
    this.#bystander = undefined;
  }

  /** Ends everything, and looks whether the other bridge leaves nothing. */
  async remove(): Promise<void> {
    try {
      this.#bystander?.kill();
      await within(END_MS, this.#bystanderLine.end(), 'the other bridge did not end');
    } finally {
      await this.discard();
    }
  }

  /** Ends everything, whatever state it is in: what stands still ends of nothing but this. */
  async discard(): Promise<void> {
    this.#bystander?.kill();
    // Bridges, extension hosts, the holder and the agent all have the home's variables.
    for (const { pid } of await processesWith(`HOME=${this.home.env.HOME}\0`)) signal(pid, 'SIGKILL');
    await this.home.remove();
    await removeDir(this.root);
  }

  /** What the agent itself says in every phase. */
  async #learn(): Promise<void> {
    const listing = await this.home.gpgOk(['-K', '--with-keygrip', '--with-colons']);
    const [signing, encryption] = [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].map(([, grip]) => grip);
    const sign = `SIGKEY ${signing}\nSETKEYDESC one\nSETHASH --hash=sha256 ${HASH}\nPKSIGN\n`;
    const said: Record<Phase, [before: string, rest: string]> = {
      connecting: ['', `${VERSION}BYE\n`],
      greeting: ['', `${VERSION}BYE\n`],
      idle: ['', `${VERSION}BYE\n`],
      command: [sign, 'BYE\n'],
      inquiry: [`SETKEY ${encryption}\nPKDECRYPT\n`, `D ${CIPHERTEXT}\nEND\nBYE\n`],
      response: [sign, 'BYE\n'],
      closing: ['BYE\n', ''],
    };
    for (const [phase, [before, rest]] of Object.entries(said) as [Phase, [string, string]][]) {
      const client = new Client(this.agentPath);
      client.tell(before + rest);
      await client
        .ends(`the agent did not answer everything in the phase ${phase}`)
        .finally(() => client.kill());
      const everything = masked(client.printed);
      expect(everything).toMatch(/^OK .*\nOK closing connection\n$/s);
      this.scripts.set(phase, { before, rest, everything });
    }
  }
}

/** Stops a process, or says that it can't be stopped. */
function stand(pid: number): Promise<void> {
  return within(PATIENCE_MS, stopProcess(pid), `process ${pid} did not stand still`);
}
