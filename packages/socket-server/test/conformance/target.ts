import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import net from 'node:net';
import { dirname, join } from 'node:path';
import { run, runOk } from '@gpg-bridge/test-support/process';
import {
  RunningServer,
  type ServerOptions,
  type ServeSetup,
  type TestedRuntime,
} from '@gpg-bridge/test-support/socket-server';
import { makeTempDir } from '@gpg-bridge/test-support/temp';
import { OPEN } from '@gpg-bridge/test-support/wire';
import { expect, onTestFinished } from 'vitest';

/**
 * A user's home as in a target, with a GNUPGHOME of its own: without one, all homes of this user would
 * share the sockets in /run/user.
 */
export class Target {
  #servers: RunningServer[] = [];

  private constructor(
    readonly runtime: TestedRuntime,
    readonly root: string,
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Makes one; everything in it ends with the test. */
  static async create(runtime: TestedRuntime, env: NodeJS.ProcessEnv = {}): Promise<Target> {
    const root = await makeTempDir();
    const { SSH_AUTH_SOCK: _ssh, GPG_AGENT_INFO: _info, ...inherited } = process.env;
    const own = {
      ...inherited,
      PATH: `/usr/bin:${inherited.PATH}`, // the system's own runtimes, as in a container
      HOME: join(root, 'h'),
      GNUPGHOME: join(root, 'g'),
      LC_ALL: 'C',
      ...env,
    };
    const target = new Target(runtime, root, own);
    await mkdir(join(root, 'h'), { mode: 0o700 });
    onTestFinished(() => target.remove());
    return target;
  }

  get home(): string {
    return join(this.root, 'h');
  }

  get gnupgHome(): string {
    return join(this.root, 'g');
  }

  get sshSocket(): string {
    return join(this.home, '.ssh/agent.sock');
  }

  /** Where gpg looks for its agent. */
  async gpgSocket(): Promise<string> {
    return (await runOk('gpgconf', ['--list-dirs', 'agent-socket'], { env: this.env })).trim();
  }

  gpg(...args: string[]): Promise<string> {
    return runOk('gpg', ['--batch', '--no-tty', '--no-autostart', ...args], { env: this.env });
  }

  /** Makes the GNUPGHOME, with a gpg-agent that runs. */
  async withOwnAgent(): Promise<void> {
    await mkdir(this.gnupgHome, { mode: 0o700 });
    await runOk('gpgconf', ['--launch', 'gpg-agent'], { env: this.env });
  }

  /** Nothing that a server made is left, except for what gpg keeps. */
  async expectNoSockets(): Promise<void> {
    expect(existsSync(await this.gpgSocket())).toBe(false);
    expect(existsSync(this.sshSocket)).toBe(false);
    for (const dir of [this.gnupgHome, dirname(this.sshSocket)]) {
      if (existsSync(dir)) expect(readdirSync(dir).filter((name) => name.startsWith('.gb'))).toEqual([]);
    }
  }

  /** Starts a server here. */
  async serve(setup: ServeSetup, options: Partial<ServerOptions> = {}): Promise<RunningServer> {
    const server = await RunningServer.start({
      runtime: this.runtime,
      env: this.env,
      setup: { probeMs: 1_000, tickMs: 100, maxUnanswered: 100, ...setup },
      ...options,
    });
    this.#servers.push(server);
    return server;
  }

  /** Starts a server for ssh alone, which needs nothing of the target, and waits until it is ready. */
  async serveSsh(setup: ServeSetup = {}): Promise<RunningServer> {
    const server = await this.serve({ ssh: true, ...setup });
    await server.ready();
    return server;
  }

  private async remove(): Promise<void> {
    for (const server of this.#servers) {
      server.child.kill('SIGKILL');
      await server.exited;
    }
    if (existsSync(this.gnupgHome)) {
      // The agent alone is meant, and only where it is one: a bridge's socket has no server any more.
      await run('gpgconf', ['--kill', 'gpg-agent'], { env: this.env });
      await run('gpgconf', ['--remove-socketdir'], { env: this.env });
    }
    await rm(this.root, { recursive: true, force: true });
  }
}

/** A client in the target, which keeps what it receives. */
export class Client {
  #received: Buffer[] = [];
  #size = 0;
  #wake: (() => void)[] = [];
  ended = false;

  private constructor(readonly socket: net.Socket) {
    socket.on('error', () => {}); // shows as a close
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        this.ended = true;
        this.#notify();
      });
    }
    onTestFinished(() => {
      socket.destroy();
    });
  }

  /** Connects; one that does not read has no bytes taken from its socket until `read`. */
  static async connect(path: string, { reads = true } = {}): Promise<Client> {
    const socket = net.connect({ path, allowHalfOpen: true });
    await once(socket, 'connect');
    const client = new Client(socket);
    if (reads) client.read();
    else socket.pause();
    return client;
  }

  /** Connects and waits for the OPEN that this makes. */
  static async open(
    server: RunningServer,
    path: string,
    options?: { reads: boolean },
  ): Promise<[Client, number]> {
    const client = await Client.connect(path, options);
    return [client, (await server.next(OPEN)).stream];
  }

  read(): void {
    this.socket.on('data', (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#size += chunk.length;
      this.#notify();
    });
    this.socket.resume();
  }

  write(bytes: Buffer | string): void {
    this.socket.write(bytes);
  }

  get size(): number {
    return this.#size;
  }

  /** Waits for so many bytes and takes them; throws when the connection ends before. */
  async take(size: number): Promise<Buffer> {
    while (this.#size < size) {
      if (this.ended) throw new Error(`the connection ended after ${this.#size} of ${size} bytes`);
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
    const all = Buffer.concat(this.#received);
    this.#received = [all.subarray(size)];
    this.#size = all.length - size;
    return all.subarray(0, size);
  }

  /** Waits for the end of the connection. */
  async end(): Promise<void> {
    while (!this.ended) await new Promise<void>((resolve) => this.#wake.push(resolve));
  }

  #notify(): void {
    for (const resolve of this.#wake.splice(0)) resolve();
  }
}

/** Bytes of every value, in an order that shows a piece that is missing or moved. */
export function pattern(size: number, seed = 1): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let state = seed >>> 0 || 1;
  for (let at = 0; at < size; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}
