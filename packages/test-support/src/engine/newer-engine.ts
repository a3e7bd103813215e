import { chown, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { runOk } from '../process.ts';
import { makeTempDir } from '../temp.ts';
import { type Part, testedWith } from '../tested-with.ts';
import { ContainerEngine, type EngineAddress } from './containers.ts';
import { Daemon } from './daemon.ts';
import { imageTar } from './images.ts';
import { importerFor } from './import-image.ts';
import { cgroupOf, killProcessesOf, overlayWorks, removeCgroup, unmountBelow } from './kernel.ts';

/** The engines of Debian 13, started by root or by somebody who is not. */
export type NewerEngineName = 'docker' | 'rootless docker' | 'rootless podman';

interface Variety {
  part: Part;
  program: EngineAddress['program'];
  /** The socket of the API, below the engine's directory, which is the runtime directory of who starts it. */
  socket: string;
  /** The variable that leads to it. */
  variable: 'DOCKER_HOST' | 'CONTAINER_HOST';
  /** Run in that root, with a directory for everything. */
  command(dir: string, socketPath: string): Promise<string[]>;
  runArgs: readonly string[];
  ready: RegExp;
}

/** The user of the images; useradd gave it further ids. */
const USER = 1000;
const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Runs a command in another root, with a directory of this machine at its own path. Not by chroot, in which nobody may
 * make the namespaces of a user.
 */
const ENTER = `set -e
root=$1 dir=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root$dir"
mount --bind "$dir" "$root$dir"
cd "$root"
pivot_root . mnt
umount --lazy /mnt
exec "$@"`;

/** The kernel tells a process of its parent's end only until it becomes somebody else: told again after that. */
function asUser(dir: string, ...command: string[]): string[] {
  const who = ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--init-groups', '--inh-caps=-all'];
  const variables = ['HOME=/home/dev', 'USER=dev', `XDG_RUNTIME_DIR=${dir}`, `PATH=${PATH}`];
  return [...who, 'setpriv', '--pdeathsig', 'TERM', 'env', '-C', '/', ...variables, ...command];
}

function dockerd(dir: string, socketPath: string, driver: string): string[] {
  return [
    'dockerd',
    '--iptables=false',
    '--ip6tables=false',
    '--bridge=none',
    `--storage-driver=${driver}`,
    `--data-root=${join(dir, 'root')}`,
    `--exec-root=${join(dir, 'exec')}`,
    `--pidfile=${join(dir, 'pid')}`,
    `--host=unix://${socketPath}`,
  ];
}

const DOCKER = { program: 'docker', socket: 'docker.sock', variable: 'DOCKER_HOST', runArgs: [] } as const;
const API_LISTENS = /API listen on/;

const VARIETIES: Readonly<Record<NewerEngineName, Variety>> = {
  docker: {
    ...DOCKER,
    part: 'docker-newer',
    command: async (dir, socketPath) => [
      ...dockerd(dir, socketPath, (await overlayWorks(dir)) ? 'overlay2' : 'vfs'),
      `--cgroup-parent=${cgroupOf(dir)}`,
    ],
    ready: API_LISTENS,
  },
  'rootless docker': {
    ...DOCKER,
    part: 'docker-rootless',
    // As dockerd-rootless.sh does it, without a network.
    command: async (dir, socketPath) =>
      asUser(
        dir,
        'rootlesskit',
        `--state-dir=${join(dir, 'kit')}`,
        '--net=host',
        '--copy-up=/etc',
        '--copy-up=/run',
        'sh',
        '-c',
        `rm -rf /run/docker /run/containerd; exec ${[...dockerd(dir, socketPath, 'vfs'), '--rootless'].join(' ')}`,
      ),
    ready: API_LISTENS,
  },
  'rootless podman': {
    part: 'podman-rootless',
    program: 'podman',
    socket: 'podman/podman.sock',
    variable: 'CONTAINER_HOST',
    command: async (dir, socketPath) =>
      asUser(
        dir,
        'podman',
        '--log-level=info',
        '--storage-driver=vfs',
        `--root=${join(dir, 'root')}`,
        `--runroot=${join(dir, 'run')}`,
        '--runtime=runc',
        '--cgroup-manager=cgroupfs',
        'system',
        'service',
        '--time=0',
        `unix://${socketPath}`,
      ),
    // It asks for more than a limited root may have.
    runArgs: ['--ulimit=nofile=1024:4096', '--ulimit=nproc=1024:4096'],
    ready: /API service listening on/,
  },
};

/** An engine of the release after this machine's own. `stop()` removes everything that came of it. */
export class NewerEngine extends ContainerEngine {
  private constructor(
    address: EngineAddress,
    /** Its files, and the runtime directory of who started it. */
    readonly dir: string,
    private readonly root: string,
    private readonly daemon: Daemon,
  ) {
    super(address, importerFor(address));
  }

  /** Starts one; needs root. */
  static async start(name: NewerEngineName): Promise<NewerEngine> {
    const { program, part, socket, variable, command, runArgs, ready } = VARIETIES[name];
    const [root, dir] = [await makeTempDir(), await makeTempDir()];
    const socketPath = join(dir, socket);
    const { DOCKER_CONTEXT: _context, CONTAINER_CONNECTION: _connection, ...inherited } = process.env;
    // Podman reads that file, too, and wants it to be there.
    const configuration = program === 'docker' ? { DOCKER_CONFIG: join(root, 'config') } : {};
    const env = { ...inherited, [variable]: `unix://${socketPath}`, ...configuration };
    try {
      await runOk('tar', [
        '--extract',
        '--numeric-owner',
        '--file',
        await imageTar('engines'),
        '--directory',
        root,
      ]);
      await mkdir(join(dir, 'podman'));
      if (name !== 'docker') for (const path of [dir, join(dir, 'podman')]) await chown(path, USER, USER);
      const args = ['--mount', 'sh', '-c', ENTER, 'sh', root, dir, ...(await command(dir, socketPath))];
      // The variable would have podman look for another one's service.
      const daemon = await Daemon.start({
        command: 'unshare',
        args,
        ready,
        env: { PATH: `${PATH}:${inherited.PATH}` },
      });
      const engine = new NewerEngine({ program, env, socketPath, runArgs }, dir, root, daemon);
      await testedWith(part, () => engine.version());
      return engine;
    } catch (error) {
      for (const path of [root, dir]) await rm(path, { recursive: true, force: true });
      throw error;
    }
  }

  /** Kills every container, ends the engine and deletes its files. */
  async stop(): Promise<void> {
    await this.removeContainers();
    await this.daemon.stop();
    await killProcessesOf(this.dir);
    await unmountBelow(this.dir);
    await removeCgroup(cgroupOf(this.dir));
    for (const path of [this.root, this.dir]) await rm(path, { recursive: true, force: true });
  }
}
