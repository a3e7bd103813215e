import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { residentKiB, tree } from '../../bench/processes.mjs';
import { loadSupport, ROOT } from '../../bench/support.mjs';

/** The native server is there if it could be built here. */
const NATIVE = join(
  ROOT,
  'packages/cli/dist/servers',
  `native-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`,
);
const RUNTIMES = ['perl', 'node', ...(existsSync(NATIVE) ? ['native'] : [])];
/** Some of each: a list of one would hide what only others meet. */
const MESSAGES = 4;

/** The connection that asked for the status may still be closing: what stays is the least of some looks. */
async function measureProcess(pid) {
  let descriptors = Number.POSITIVE_INFINITY;
  for (let looks = 0; looks < 20; looks++) {
    descriptors = Math.min(descriptors, readdirSync(`/proc/${pid}/fd`).length);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { descriptors, residentKiB: residentKiB([pid]) };
}

/** A host with its agents, an sshd, and a bridge for each runtime to a home on this machine. */
export class Machine {
  bridges = [];
  messages = [];
  #sshAgent;

  static async start() {
    const machine = new Machine();
    machine.directory = await mkdtemp('/tmp/gbs-');
    try {
      await machine.#prepare();
    } catch (error) {
      await machine.stop();
      throw error;
    }
    return machine;
  }

  async #prepare() {
    const { directory } = this;
    this.support = await loadSupport(directory);
    await cp(join(ROOT, 'packages/cli/dist'), join(directory, 'dist'), { recursive: true });
    await writeFile(join(directory, 'package.json'), '{"type":"module"}');
    this.home = await this.support.GnupgHome.create();
    this.fingerprint = await this.home.createKey('Soak <soak@example.org>');
    await this.home.addEncryptionKey(this.fingerprint);
    for (let count = 0; count < MESSAGES; count++) await this.#addMessage(400 * 8 ** count);
    await this.#startSshAgent();
    await this.#startSshd();
    this.env = {
      ...this.home.env,
      SSH_AUTH_SOCK: this.sshAgentPath,
      GPG_BRIDGE_STATE_DIR: join(directory, 'state'),
    };
    for (const runtime of RUNTIMES) await this.#addBridge(runtime);
  }

  /** Runs the built command. */
  async command(...args) {
    return this.support.runOk(process.execPath, [join(this.directory, 'dist/gpg-bridge.js'), ...args], {
      env: this.env,
    });
  }

  async status(bridge) {
    return JSON.parse(await this.command('status', bridge.name, '--json'))[0];
  }

  /** The socket server of a bridge, if it has one now. */
  serverOf(bridge) {
    return tree(bridge.pid)[1];
  }

  /** One of the bridges, each as often as the others. */
  anyBridge() {
    return this.bridges[Math.floor(Math.random() * this.bridges.length)];
  }

  /** Memory, descriptors and sessions of every bridge. */
  async measure() {
    const found = new Map();
    for (const bridge of this.bridges) {
      const { sessions, waiting } = await this.status(bridge);
      found.set(bridge.runtime, {
        open: sessions.open,
        waiting,
        daemon: await measureProcess(bridge.pid),
        server: await measureProcess(this.serverOf(bridge)),
      });
    }
    return found;
  }

  /** Ends every bridge; returns what is left of them. */
  async downAll() {
    await this.command('down', '--all');
    const sockets = this.bridges.flatMap(({ home }) =>
      readdirSync(home)
        .filter((name) => /^(S\.|\.gb|agent\.sock)/.test(name))
        .map((name) => join(home, name)),
    );
    const state = readdirSync(this.env.GPG_BRIDGE_STATE_DIR).filter(
      (name) => !/\.(log(\.1)?|uses)$/.test(name),
    );
    let processes = this.#processes();
    // A daemon has let go of everything a moment before its process ends.
    for (let tries = 0; processes.length > 0 && tries < 100; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      processes = this.#processes();
    }
    return [...sockets, ...state, ...processes];
  }

  async stop() {
    if (existsSync(join(this.directory, 'state'))) await this.command('down', '--all').catch(() => {});
    for (const { home } of this.bridges) {
      await this.support.run('gpgconf', ['--kill', 'all'], { env: { ...this.env, GNUPGHOME: home } });
    }
    this.#sshAgent?.kill();
    await this.sshd?.stop();
    await this.home?.remove();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** Whatever has the state directory in its environment, except for agents, which stay with their home. */
  #processes() {
    const marker = `GPG_BRIDGE_STATE_DIR=${this.env.GPG_BRIDGE_STATE_DIR}\0`;
    const read = (pid, file) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, 'latin1');
      } catch {
        return ''; // processes come and go
      }
    };
    return readdirSync('/proc')
      .filter((pid) => /^\d+$/.test(pid) && read(pid, 'environ').includes(marker))
      .map((pid) => read(pid, 'cmdline').replaceAll('\0', ' '))
      .filter((command) => !/(^|\/)(gpg-agent|scdaemon) /.test(command));
  }

  async #addMessage(size) {
    const text = randomBytes(size).toString('base64');
    const args = ['--trust-model=always', '-r', this.fingerprint, '--encrypt'];
    this.messages.push({ text, encrypted: (await this.home.gpg(args, { input: text })).stdout });
  }

  async #startSshAgent() {
    this.sshAgentPath = join(this.directory, 'ssh-agent');
    this.#sshAgent = spawn('ssh-agent', ['-D', '-a', this.sshAgentPath], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    await once(this.#sshAgent.stdout, 'data');
    this.sshKey = join(this.directory, 'key');
    await this.support.runOk('ssh-keygen', [
      '-q',
      '-t',
      'ed25519',
      '-N',
      '',
      '-C',
      'soak',
      '-f',
      this.sshKey,
    ]);
    const env = { ...process.env, SSH_AUTH_SOCK: this.sshAgentPath };
    await this.support.runOk('ssh-add', ['-q', this.sshKey], { env });
    this.sshPublicKey = readFileSync(`${this.sshKey}.pub`, 'utf8').trim();
    await rm(this.sshKey); // only the agent has it from now on
    await writeFile(join(this.directory, 'signers'), `soak ${this.sshPublicKey}\n`);
  }

  /** Logins need an sshd, and that needs root; without it keys sign all the same. */
  async #startSshd() {
    if (process.getuid() !== 0 || !existsSync('/usr/sbin/sshd')) return;
    this.sshd = await this.support.SshServer.start();
    await this.sshd.authorize(this.sshPublicKey);
    // The server's own key would log in without the agent.
    const config = readFileSync(this.sshd.configPath, 'utf8').replace(
      /^(IdentityFile|IdentitiesOnly|IdentityAgent) .*\n/gm,
      '',
    );
    this.sshConfig = join(this.directory, 'ssh_config');
    await writeFile(this.sshConfig, config);
  }

  async #addBridge(runtime) {
    const home = join(this.directory, `h-${runtime}`);
    await mkdir(home, { mode: 0o700 });
    const name = `local:${home}`;
    const { pid } = JSON.parse(
      await this.command('up', name, '--restart', `--runtime=${runtime}`, '--gpg', '--ssh', '--json'),
    );
    const env = { ...this.home.env, GNUPGHOME: home, SSH_AUTH_SOCK: join(home, 'agent.sock') };
    this.bridges.push({ name, runtime, home, pid, env, socket: join(home, 'S.gpg-agent') });
  }
}
