import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finished, type RunOptions, run, runOk } from './process.ts';
import { makeTempDir, removeDir } from './temp.ts';
import { testedHere } from './tested-with.ts';

/**
 * A GNUPGHOME of a test's own, with its own agent. `remove()` ends that agent and deletes everything;
 * call it from `onTestFinished` or `afterAll`.
 */
export class GnupgHome {
  private constructor(
    readonly dir: string,
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Makes an empty one; `agentConf` becomes gpg-agent.conf. */
  static async create(agentConf = ''): Promise<GnupgHome> {
    await testedHere();
    const root = await makeTempDir();
    const dir = join(root, 'h');
    await mkdir(dir, { mode: 0o700 });
    if (agentConf) await writeFile(join(dir, 'gpg-agent.conf'), agentConf);
    // Certificates that every Node reads at its start, where a machine has such a setting, would triple that.
    const {
      SSH_AUTH_SOCK: _ssh,
      GPG_AGENT_INFO: _info,
      NODE_EXTRA_CA_CERTS: _ca,
      ...inherited
    } = process.env;
    const env = { ...inherited, GNUPGHOME: dir, HOME: root, LC_ALL: 'C', GIT_CONFIG_NOSYSTEM: '1' };
    return new GnupgHome(dir, env);
  }

  /** Runs gpg here, without a terminal. */
  gpg(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    return run('gpg', ['--batch', '--no-tty', ...args], { ...options, env: { ...this.env, ...options.env } });
  }

  /** Runs gpg here; it has to succeed. Returns its standard output. */
  gpgOk(args: readonly string[], options: RunOptions = {}): Promise<string> {
    return runOk('gpg', ['--batch', '--no-tty', ...args], {
      ...options,
      env: { ...this.env, ...options.env },
    });
  }

  /**
   * Makes a key and returns its fingerprint. `algo` and `usage` as gpg's --quick-gen-key takes them; one that is
   * `expired` was made long ago, for a day.
   */
  async createKey(
    userId: string,
    { algo = 'ed25519', usage = 'default', passphrase = '', expired = false } = {},
  ): Promise<string> {
    await this.gpgOk([
      ...(expired ? ['--faked-system-time', '20200101T000000'] : []),
      '--pinentry-mode',
      'loopback',
      '--passphrase',
      passphrase,
      '--quick-gen-key',
      userId,
      algo,
      usage,
      expired ? '1d' : 'never',
    ]);
    const listing = await this.gpgOk(['--with-colons', '--list-keys', `=${userId}`]);
    const fingerprint = listing
      .split('\n')
      .find((line) => line.startsWith('fpr:'))
      ?.split(':')[9];
    if (!fingerprint) throw new Error(`no fingerprint for ${userId}`);
    return fingerprint;
  }

  /** Revokes a key, with the certificate that gpg made along with it. */
  async revokeKey(fingerprint: string): Promise<void> {
    const certificate = await readFile(join(this.dir, 'openpgp-revocs.d', `${fingerprint}.rev`), 'utf8');
    // gpg puts a colon before its first line, so that nobody imports it by accident.
    await this.gpgOk(['--import'], { input: certificate.replace(/^:-----/m, '-----') });
  }

  /** Adds an encryption subkey, since --quick-gen-key with a named algorithm makes a signing key alone; returns its keygrip. */
  async addEncryptionKey(fingerprint: string, algo = 'cv25519', passphrase = ''): Promise<string> {
    await this.gpgOk([
      '--pinentry-mode',
      'loopback',
      '--passphrase',
      passphrase,
      '--quick-add-key',
      fingerprint,
      algo,
      'encr',
      'never',
    ]);
    const listing = await this.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
    return [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].at(-1)![1]!;
  }

  /** Where gpgconf says a socket is: `agent-socket`, `agent-extra-socket`, `agent-ssh-socket`. */
  async socket(name: string): Promise<string> {
    return (await runOk('gpgconf', ['--list-dirs', name], { env: this.env })).trim();
  }

  /** Starts this home's agent. */
  async launchAgent(): Promise<void> {
    await runOk('gpgconf', ['--launch', 'gpg-agent'], { env: this.env });
  }

  /** Ends this home's agent, if it runs. */
  async killAgent(): Promise<void> {
    await run('gpgconf', ['--kill', 'gpg-agent'], { env: this.env });
  }

  /** Ends every daemon of this home and deletes it. */
  async remove(): Promise<void> {
    await run('gpgconf', ['--kill', 'all'], { env: this.env });
    await run('gpgconf', ['--remove-socketdir'], { env: this.env });
    await removeDir(join(this.dir, '..'));
  }
}
