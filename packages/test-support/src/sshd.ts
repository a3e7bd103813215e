import { mkdir, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Daemon } from './engine/daemon.ts';
import { descendantsOf, killAll } from './engine/kernel.ts';
import { type Finished, type RunOptions, run, runOk } from './process.ts';
import { makeTempDir } from './temp.ts';
import { testedWith, versionOf } from './tested-with.ts';

/** How an `SshServer` is set up. */
export interface SshServerOptions {
  /** The user to log in as; by default the one who runs the tests. */
  user?: string;
  /** Environment of every session. HOME and GNUPGHOME are the server's own unless given here. */
  env?: Record<string, string>;
  /** Further lines of sshd_config. */
  config?: readonly string[];
  /** Listens in the network of this process, such as a container's first one. */
  networkOf?: number;
}

/** The name under which the client configuration knows the server. */
export const SSH_HOST = 'gpg-bridge-test';

const START_ATTEMPTS = 5;

/**
 * A real sshd on a loopback port, with its own keys and configuration. Sessions have a HOME of their
 * own, so that no test touches the files of the person who runs it.
 */
export class SshServer {
  private constructor(
    readonly dir: string,
    readonly port: number,
    private readonly daemon: Daemon,
  ) {}

  /** Starts one; needs root, as sshd does to log in another user. */
  static async start(options: SshServerOptions = {}): Promise<SshServer> {
    await testedWith('sshd', () => versionOf('ssh', '-V'));
    const dir = await makeTempDir();
    try {
      await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
      for (const home of ['home', 'home/.gnupg']) await mkdir(join(dir, home), { mode: 0o700 });
      for (const key of ['host-key', 'client-key']) {
        await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', key, '-f', join(dir, key)]);
      }
      return await SshServer.listen(dir, options, START_ATTEMPTS);
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /** Nobody keeps a free port free until sshd takes it, so one that was lost is tried again. */
  private static async listen(dir: string, options: SshServerOptions, attempts: number): Promise<SshServer> {
    const port = await freePort();
    await writeFile(join(dir, 'sshd_config'), serverConfig(dir, port, options));
    await writeFile(join(dir, 'ssh_config'), clientConfig(dir, port, options.user ?? userInfo().username));
    const hostKey = (await runOk('cat', [join(dir, 'host-key.pub')])).trim();
    await writeFile(join(dir, 'known_hosts'), `${SSH_HOST} ${hostKey}\n`);
    const network =
      options.networkOf === undefined ? [] : ['nsenter', `--net=/proc/${options.networkOf}/ns/net`];
    const [command, ...args] = [...network, '/usr/sbin/sshd', '-D', '-e', '-f', join(dir, 'sshd_config')];
    try {
      const daemon = await Daemon.start({ command: command!, args, ready: /Server listening on/ });
      return new SshServer(dir, port, daemon);
    } catch (error) {
      if (attempts > 1 && /Address already in use/.test(String(error))) {
        return SshServer.listen(dir, options, attempts - 1);
      }
      throw error;
    }
  }

  /** For `ssh -F`: with it, `SSH_HOST` is this server. */
  get configPath(): string {
    return join(this.dir, 'ssh_config');
  }

  /** HOME of the sessions, unless the options said otherwise. */
  get home(): string {
    return join(this.dir, 'home');
  }

  /** The private key that may log in. */
  get clientKeyPath(): string {
    return join(this.dir, 'client-key');
  }

  /** Lets another key log in too: a line of authorized_keys. */
  async authorize(publicKey: string): Promise<void> {
    await writeFile(join(this.dir, 'authorized_keys'), `${publicKey.trim()}\n`, { flag: 'a' });
  }

  /** Runs a command there over ssh. */
  ssh(command: readonly string[], options: RunOptions = {}): Promise<Finished> {
    return run('ssh', ['-F', this.configPath, SSH_HOST, ...command], options);
  }

  /** Ends the server and its sessions, and deletes its files. */
  async stop(): Promise<void> {
    const sessions = await descendantsOf(this.daemon.pid);
    const stopped = this.daemon.stop(); // not before they end: they hold its log open
    await killAll(sessions);
    await stopped;
    await rm(this.dir, { recursive: true, force: true });
  }
}

function serverConfig(dir: string, port: number, { env = {}, config = [] }: SshServerOptions): string {
  const session = { HOME: join(dir, 'home'), GNUPGHOME: join(dir, 'home/.gnupg'), ...env };
  const setEnv = Object.entries(session).map(([name, value]) => `"${name}=${value}"`);
  return [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${join(dir, 'host-key')}`,
    `AuthorizedKeysFile ${join(dir, 'client-key.pub')} ${join(dir, 'authorized_keys')}`,
    'PidFile none',
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin prohibit-password',
    'PasswordAuthentication no',
    'MaxStartups 200',
    'MaxSessions 200',
    'LogLevel INFO',
    'PrintMotd no',
    'StreamLocalBindUnlink yes',
    `SetEnv ${setEnv.join(' ')}`,
    ...config,
    '',
  ].join('\n');
}

function clientConfig(dir: string, port: number, user: string): string {
  return [
    `Host ${SSH_HOST}`,
    'HostName 127.0.0.1',
    `Port ${port}`,
    `User ${user}`,
    `HostKeyAlias ${SSH_HOST}`,
    `UserKnownHostsFile ${join(dir, 'known_hosts')}`,
    'GlobalKnownHostsFile /dev/null',
    'StrictHostKeyChecking yes',
    `IdentityFile ${join(dir, 'client-key')}`,
    'IdentitiesOnly yes',
    'IdentityAgent none',
    'BatchMode yes',
    'LogLevel ERROR',
    '',
  ].join('\n');
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
