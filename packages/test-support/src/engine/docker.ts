import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTempDir } from '../temp.ts';
import { ContainerEngine, type EngineAddress } from './containers.ts';
import { Daemon } from './daemon.ts';
import { importerFor } from './import-image.ts';
import { cgroupOf, killProcessesOf, overlayWorks, removeCgroup, unmountBelow } from './kernel.ts';

/** A Docker engine of a test's own, with nothing in it. `stop()` removes everything that came of it. */
export class DockerEngine extends ContainerEngine {
  private constructor(
    address: EngineAddress,
    private readonly dir: string,
    private daemon: Daemon,
  ) {
    super(address, importerFor(address));
  }

  /** Starts one; needs root. */
  static async start(): Promise<DockerEngine> {
    const dir = await makeTempDir();
    const socketPath = join(dir, 'docker.sock');
    const { DOCKER_CONTEXT: _context, ...inherited } = process.env;
    const env = { ...inherited, DOCKER_HOST: `unix://${socketPath}`, DOCKER_CONFIG: join(dir, 'config') };
    try {
      const daemon = await startDaemon(dir, socketPath);
      return new DockerEngine({ program: 'docker', env, socketPath, runArgs: [] }, dir, daemon);
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /** The engine's process. */
  get pid(): number {
    return this.daemon.pid;
  }

  /** Starts the engine's process again after it was ended or killed, with what it had. */
  async startDaemon(): Promise<void> {
    // The containerd that it started ends with it, and is taken for a living one until somebody has reaped it.
    await rm(join(this.dir, 'exec/containerd/containerd.pid'), { force: true });
    this.daemon = await startDaemon(this.dir, this.socketPath);
  }

  /** Ends the engine's process alone, as a machine that shuts down does: containers stop, files stay. */
  async stopDaemon(): Promise<void> {
    await this.daemon.stop();
  }

  /** Kills every container, ends the engine and deletes its files. */
  async stop(): Promise<void> {
    const containers = (await this.run(['ps', '--all', '--quiet'])).stdout
      .toString()
      .split('\n')
      .filter(Boolean);
    if (containers.length > 0) await this.run(['rm', '--force', '--volumes', ...containers]);
    await this.stopDaemon();
    await killProcessesOf(this.dir); // containers outlive an engine that was killed
    await unmountBelow(this.dir);
    await removeCgroup(cgroupOf(this.dir));
    await rm(this.dir, { recursive: true, force: true });
  }
}

async function startDaemon(dir: string, socketPath: string): Promise<Daemon> {
  return Daemon.start({
    command: 'dockerd',
    args: [
      '--iptables=false',
      '--ip6tables=false',
      '--bridge=none',
      `--storage-driver=${(await overlayWorks(dir)) ? 'overlay2' : 'vfs'}`,
      `--cgroup-parent=${cgroupOf(dir)}`,
      `--data-root=${join(dir, 'root')}`,
      `--exec-root=${join(dir, 'exec')}`,
      `--pidfile=${join(dir, 'pid')}`,
      `--host=unix://${socketPath}`,
    ],
    ready: /API listen on/,
  });
}
