import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTempDir } from '../temp.ts';
import { testedWith } from '../tested-with.ts';
import { ContainerEngine, type EngineAddress } from './containers.ts';
import { Daemon } from './daemon.ts';
import { importerFor } from './import-image.ts';
import { cgroupOf, killProcessesOf, overlayWorks, removeCgroup, unmountBelow } from './kernel.ts';

/** Podman with a store of a test's own, and its API service. `stop()` removes everything that came of it. */
export class PodmanEngine extends ContainerEngine {
  private constructor(
    address: EngineAddress,
    private readonly dir: string,
    private readonly service: Daemon,
  ) {
    super(address, importerFor(address));
  }

  /** Starts one; needs root. */
  static async start(): Promise<PodmanEngine> {
    const dir = await makeTempDir();
    const socketPath = join(dir, 'podman.sock');
    const { CONTAINER_HOST: _host, CONTAINER_CONNECTION: _connection, ...inherited } = process.env;
    const env = {
      ...inherited,
      CONTAINERS_CONF: join(dir, 'containers.conf'),
      CONTAINERS_STORAGE_CONF: join(dir, 'storage.conf'),
    };
    await writeFile(env.CONTAINERS_CONF, containersConf(dir));
    await writeFile(
      env.CONTAINERS_STORAGE_CONF,
      storageConf(dir, (await overlayWorks(dir)) ? 'overlay' : 'vfs'),
    );
    await mkdir(join(dir, 'tmp'));
    try {
      const service = await Daemon.start({
        command: 'podman',
        args: ['--log-level=info', 'system', 'service', '--time=0', `unix://${socketPath}`],
        ready: /API service listening on/,
        env,
      });
      const runArgs = [...LIMITS, `--cgroup-parent=${cgroupOf(dir)}`];
      const engine = new PodmanEngine({ program: 'podman', env, socketPath, runArgs }, dir, service);
      await testedWith('podman', () => engine.version());
      return engine;
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /** Kills every container, ends the service and deletes the store. */
  async stop(): Promise<void> {
    await this.tryRun(['rm', '--all', '--force', '--time=0', '--volumes']);
    await this.service.stop();
    await killProcessesOf(this.dir);
    await unmountBelow(this.dir);
    await removeCgroup(cgroupOf(this.dir));
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** Podman 4.3 asks for more than a limited root may have. */
const LIMITS = ['--ulimit=nofile=1024:4096', '--ulimit=nproc=1024:4096'];

function containersConf(dir: string): string {
  return [
    '[engine]',
    'runtime = "runc"',
    'cgroup_manager = "cgroupfs"',
    'events_logger = "file"',
    `tmp_dir = "${join(dir, 'tmp')}"`,
    '',
  ].join('\n');
}

function storageConf(dir: string, driver: string): string {
  return [
    '[storage]',
    `driver = "${driver}"`,
    `graphroot = "${join(dir, 'root')}"`,
    `runroot = "${join(dir, 'run')}"`,
    '',
  ].join('\n');
}
