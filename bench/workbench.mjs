import { spawnSync } from 'node:child_process';
import { appendFile, chmod, cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compile, runClient } from './client.mjs';
import { DelayingRelay } from './delaying-relay.mjs';
import { realHost, trivialHost } from './hosts.mjs';
import { bundle, loadSupport, ROOT } from './support.mjs';

/** What a part may need of the machine, and how to tell whether it is there. */
const NEEDS = {
  root: () => process.getuid() === 0 || 'it needs root',
  socat: () => has('socat'),
  chromium: () => has('chromium'),
  sshd: () => (process.getuid() === 0 ? has('sshd') : 'it needs root'),
  docker: () =>
    process.getuid() === 0
      ? ([has('dockerd'), has('docker'), has('mmdebstrap')].find((x) => x !== true) ?? true)
      : 'it needs root',
  windows: ({ hasWindows }) => (hasWindows() ? has('wine') : 'scripts/windows.sh has not been run'),
};

function has(program) {
  const path = `${process.env.PATH}:/usr/sbin:/sbin`;
  const found = spawnSync('/bin/sh', ['-c', `command -v ${program}`], { env: { PATH: path } }).status === 0;
  return found || `there is no ${program} here`;
}

/** Where the command keeps its state for somebody who has logged in: what lives as long as a bridge is apart from the rest. */
function directoriesIn(state) {
  return { XDG_RUNTIME_DIR: join(state, 'run'), XDG_STATE_HOME: join(state, 'kept') };
}

/**
 * What the measurements stand on: the compiled client, a copy of the built command, hosts, an engine and
 * an sshd, each made when it is first asked for. `close` ends and removes everything.
 */
export class Workbench {
  #once = new Map();
  #closers = [];

  /** Makes an empty one. The command is copied, so that a build meanwhile changes nothing. */
  static async open({ dist = join(ROOT, 'packages/cli/dist'), beside } = {}) {
    const bench = new Workbench();
    // The command of another build, which stays where it is.
    bench.beside = beside && join(beside, 'gpg-bridge.js');
    bench.directory = await mkdtemp('/tmp/gbb-');
    bench.onClose(() => rm(bench.directory, { recursive: true, force: true }));
    try {
      const main = await stat(join(dist, 'gpg-bridge.js')).catch(() => undefined);
      if (!main) throw new Error(`there is no ${dist}/gpg-bridge.js: run \`npm run build\` first`);
      bench.support = await loadSupport(bench.directory);
      bench.programs = await compile(bench.directory, bench.support);
      await cp(dist, join(bench.directory, 'dist'), { recursive: true });
      await writeFile(join(bench.directory, 'package.json'), '{"type":"module"}');
    } catch (error) {
      await bench.close();
      throw error;
    }
    return bench;
  }

  /** The built command. */
  get command() {
    return join(this.directory, 'dist/gpg-bridge.js');
  }

  /** Why something can't be measured here, or undefined. */
  missing(needs = []) {
    for (const need of needs) {
      const answer = this.#memo(`need ${need}`, () => NEEDS[need](this.support));
      if (answer !== true) return answer;
    }
    return undefined;
  }

  /** Runs the measuring client. */
  client(words, env) {
    return runClient(this.programs.client, words, env);
  }

  onClose(closer) {
    this.#closers.unshift(closer);
  }

  realHost() {
    return this.#owned('real host', () => realHost(this));
  }

  trivialHost() {
    return this.#owned('trivial host', () => trivialHost(this));
  }

  engine() {
    return this.#owned('engine', () => this.support.DockerEngine.start());
  }

  /** An sshd; each by its own number is another machine with its own home. */
  sshServer(number = 1) {
    return this.#owned(`sshd ${number}`, () => this.support.SshServer.start());
  }

  /** The name under which the command reaches an sshd. */
  sshHost(number = 1) {
    return `${this.support.SSH_HOST}-${number}`;
  }

  /**
   * A machine behind an sshd, and unless it is near, a relay that can hold every byte: its name for `ssh`, its home and
   * environment.
   */
  farMachine(purpose, { isNear = false } = {}) {
    return this.#memo(`far machine ${purpose}`, async () => {
      const server = await this.#owned(`sshd ${purpose}`, () => this.support.SshServer.start());
      const relay = isNear
        ? undefined
        : await this.#owned(`relay ${purpose}`, () => DelayingRelay.to(server.port));
      const name = `far-${purpose}`;
      const own = await readFile(server.configPath, 'utf8');
      const port = relay?.port ?? server.port;
      const config = own.replace(/^Host .*$/m, `Host ${name}`).replace(/^Port .*$/m, `Port ${port}`);
      await appendFile(join(await this.binDirectory(), 'ssh_config'), config);
      const env = { ...process.env, HOME: server.home, GNUPGHOME: join(server.home, '.gnupg') };
      return { name, relay, home: server.home, env };
    });
  }

  /** A running container, by what it is for; with its first process, whose root is the container's. */
  container(image, purpose) {
    return this.#memo(`container ${image} ${purpose}`, () => this.freshContainer(image));
  }

  async freshContainer(image) {
    const engine = await this.engine();
    const container = await engine.startContainer({ image });
    const pid = await container.pid();
    return { ...container, container, id: container.id, name: container.name, pid };
  }

  /** The proxies as a program. */
  proxiesProgram() {
    return this.#memo('proxies', () =>
      bundle(this.directory, 'proxies', `import '${join(ROOT, 'bench/proxies.ts')}';`),
    );
  }

  /** A new empty directory that only its owner may use, with a short name. */
  async newDirectory() {
    const path = await mkdtemp(join(this.directory, 'd'));
    await chmod(path, 0o700);
    return path;
  }

  /** The environment in which the command finds a host, the engine and the sshd. */
  async commandEnv(host) {
    const bin = await this.binDirectory();
    const state = join(this.directory, host.name === 'gpg-agent' ? 'state' : 'state-trivial');
    this.#memo(`bridges ${state}`, () => this.onClose(() => this.#downAll(state)));
    const engine = this.#once.has('engine') ? (await this.engine()).env : {};
    const { DOCKER_HOST, DOCKER_CONFIG } = engine;
    return {
      ...host.env,
      ...directoriesIn(state),
      PATH: `${bin}:${process.env.PATH}`,
      ...(DOCKER_HOST ? { DOCKER_HOST, DOCKER_CONFIG } : {}),
    };
  }

  /** The programs that the command is to find before the system's own. */
  binDirectory() {
    return this.#memo('bin', () => this.#sshWrapper());
  }

  /** Whatever a part that failed or was interrupted left up. */
  async #downAll(state) {
    const env = { ...process.env, ...directoriesIn(state) };
    await this.support.run(process.execPath, [this.command, 'down', '--all'], { env });
  }

  /** The benchmark's sshds are known to nobody's configuration, so `ssh` is told where theirs is. */
  async #sshWrapper() {
    const bin = join(this.directory, 'bin');
    await mkdir(bin);
    if (this.missing(['sshd'])) return bin;
    const config = join(bin, 'ssh_config');
    for (const number of [1, 2]) {
      const own = await readFile((await this.sshServer(number)).configPath, 'utf8');
      await appendFile(config, own.replace(/^Host .*$/m, `Host ${this.sshHost(number)}`));
    }
    await writeFile(join(bin, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -F ${config} "$@"\n`, { mode: 0o755 });
    return bin;
  }

  #memo(key, make) {
    if (!this.#once.has(key)) this.#once.set(key, make());
    return this.#once.get(key);
  }

  #owned(key, make) {
    return this.#memo(key, async () => {
      const thing = await make();
      this.onClose(() => thing.stop());
      return thing;
    });
  }

  async close() {
    for (const closer of this.#closers.splice(0)) await closer();
  }
}
