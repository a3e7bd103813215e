import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { PROGRAM } from '../cli.ts';
import type { ContainerEngine } from '../engine/containers.ts';
import { firstVersion, testedWith, versionOf } from '../tested-with.ts';
import { WindowsHost, type WindowsResult, type WindowsRun } from './host.ts';
import { GNUPG_BIN, type WindowsNode, windowsPath } from './programs.ts';

/** The place for what programs keep for the person. */
const LOCAL = 'Zoë Ångström';

/** Somebody at a Windows machine: GnuPG with a key, the built command, and an engine on a named pipe. */
export class WindowsPerson {
  private constructor(
    readonly host: WindowsHost,
    readonly env: NodeJS.ProcessEnv,
    private readonly port: Server,
    readonly fingerprint: string,
  ) {}

  static async create(version: WindowsNode, engine: ContainerEngine): Promise<WindowsPerson> {
    const host = await WindowsHost.start(version);
    try {
      return await WindowsPerson.at(host, engine);
    } catch (error) {
      await host.stop();
      throw error;
    }
  }

  private static async at(host: WindowsHost, engine: ContainerEngine): Promise<WindowsPerson> {
    // GnuPG 2.2 for Windows itself takes no letters beyond ASCII in GNUPGHOME.
    const [home, local] = [join(host.directory, 'gnupg'), join(host.directory, LOCAL)];
    for (const directory of [home, local]) await mkdir(directory, { mode: 0o700 });
    const port = await engineOnPort(engine.socketPath);
    const pipe = `gpg-bridge-test-${randomBytes(8).toString('hex')}`;
    await host.relay(`\\\\.\\pipe\\${pipe}`, (port.address() as AddressInfo).port);
    const env = {
      LOCALAPPDATA: windowsPath(local),
      GNUPGHOME: windowsPath(home),
      DOCKER_HOST: `npipe:////./pipe/${pipe}`,
      PATH: `${windowsPath(GNUPG_BIN)};C:\\windows\\system32`,
    };
    const words = [
      '--batch',
      '--passphrase',
      '',
      '--quick-generate-key',
      'Ada Test <ada@example.org>',
      'ed25519',
    ];
    await host.runOk({ program: gnupg('gpg'), args: words, env });
    const listed = await host.runOk({ program: gnupg('gpg'), args: ['--list-keys', '--with-colons'], env });
    await testedWith('wine', () => versionOf('wine', '--version'));
    await testedWith('windows-node', (await host.runOk({ args: ['--version'] })).trim().slice(1));
    await testedWith('windows-gnupg', async () =>
      firstVersion(await host.runOk({ program: gnupg('gpg'), args: ['--version'], env })),
    );
    const fingerprint = /^fpr:+([0-9A-F]{40}):/m.exec(listed)?.[1] ?? '';
    return new WindowsPerson(host, env, port, fingerprint);
  }

  /** Where the engine is, on TCP. */
  get tcpHost(): string {
    return `tcp://127.0.0.1:${(this.port.address() as AddressInfo).port}`;
  }

  /** The directory that the bridges' files are in, as this machine sees it. */
  get stateDirectory(): string {
    return join(this.host.directory, LOCAL, 'gpg-bridge');
  }

  /** Runs the command to its end. */
  run(args: readonly string[], options: Omit<WindowsRun, 'args'> = {}): Promise<WindowsResult> {
    const env = { ...this.env, ...options.env };
    return this.host.run({ ...options, args: [windowsPath(PROGRAM), ...args], env });
  }

  /** Runs the command, which has to succeed; returns what it printed. */
  async ok(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await this.run(args);
    if (status !== 0) throw new Error(`gpg-bridge ${args.join(' ')} ended with ${status}:\n${stderr}`);
    return stdout;
  }

  /** Runs the command with --json. */
  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.ok(...args, '--json')) as T;
  }

  /** Runs a program of GnuPG, which has to succeed. */
  gnupg(program: string, ...args: string[]): Promise<string> {
    return this.host.runOk({ program: gnupg(program), args, env: this.env });
  }

  /** Ends bridges, agent and Node. */
  async leave(): Promise<void> {
    try {
      const down = await this.run(['down', '--all', '--force']);
      await this.gnupg('gpgconf', '--kill', 'gpg-agent');
      if (down.status !== 0) throw new Error(`gpg-bridge down --all: ${down.stderr}`);
    } finally {
      await this.host.stop();
      this.port.close();
    }
  }
}

function gnupg(program: string): string {
  return windowsPath(join(GNUPG_BIN, `${program}.exe`));
}

/** A port that leads to an engine's socket. */
async function engineOnPort(socketPath: string): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path: socketPath, allowHalfOpen: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
