import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeTempDir } from '../temp.ts';
import { testedWith } from '../tested-with.ts';
import { ContainerEngine, type EngineAddress } from './containers.ts';
import { Daemon } from './daemon.ts';
import { importerFor } from './import-image.ts';
import { cgroupOf, killProcessesOf, overlayWorks, removeCgroup, unmountBelow } from './kernel.ts';

/** How an engine is started. */
export interface DockerOptions {
  /** A directory of certificates (`ca.pem`, `server-cert.pem`, `server-key.pem`): it listens on TCP too, with TLS. */
  certificates?: string;
}

/** A Docker engine of a test's own, with nothing in it. `stop()` removes everything that came of it. */
export class DockerEngine extends ContainerEngine {
  private constructor(
    address: EngineAddress,
    private readonly dir: string,
    private daemon: Daemon,
    private readonly options: DockerOptions,
  ) {
    super(address, importerFor(address));
  }

  /** Starts one; needs root. */
  static async start(options: DockerOptions = {}): Promise<DockerEngine> {
    const dir = await makeTempDir();
    const socketPath = join(dir, 'docker.sock');
    const { DOCKER_CONTEXT: _context, ...inherited } = process.env;
    const env = { ...inherited, DOCKER_HOST: `unix://${socketPath}`, DOCKER_CONFIG: join(dir, 'config') };
    try {
      const daemon = await startDaemon(dir, socketPath, options);
      const engine = new DockerEngine(
        { program: 'docker', env, socketPath, runArgs: [] },
        dir,
        daemon,
        options,
      );
      await testedWith(options.certificates ? 'docker-tcp' : 'docker', () => engine.version());
      return engine;
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /** The engine's process. */
  get pid(): number {
    return this.daemon.pid;
  }

  /** The port that it listens on with TLS. */
  get tlsPort(): number {
    return Number(LISTENS_ON_TCP.exec(this.daemon.readyLine)?.[1]);
  }

  /** Starts the engine's process again after it was ended or killed, with what it had. */
  async startDaemon(): Promise<void> {
    // The containerd that it started ends with it, and is taken for a living one until somebody has reaped it.
    await rm(join(this.dir, 'exec/containerd/containerd.pid'), { force: true });
    this.daemon = await startDaemon(this.dir, this.socketPath, this.options);
  }

  /** Ends the engine's process alone, as a machine that shuts down does: containers stop, files stay. */
  async stopDaemon(): Promise<void> {
    await this.daemon.stop();
  }

  /** Kills every container, ends the engine and deletes its files. */
  async stop(): Promise<void> {
    await this.removeContainers();
    await this.stopDaemon();
    await killProcessesOf(this.dir); // containers outlive an engine that was killed
    await unmountBelow(this.dir);
    await removeCgroup(cgroupOf(this.dir));
    await rm(this.dir, { recursive: true, force: true });
  }
}

const LISTENS_ON_TCP = /API listen on 127\.0\.0\.1:(\d+)/;

async function startDaemon(
  dir: string,
  socketPath: string,
  { certificates }: DockerOptions,
): Promise<Daemon> {
  const overTls = certificates
    ? [
        '--host=tcp://127.0.0.1:0',
        '--tlsverify',
        `--tlscacert=${join(certificates, 'ca.pem')}`,
        `--tlscert=${join(certificates, 'server-cert.pem')}`,
        `--tlskey=${join(certificates, 'server-key.pem')}`,
      ]
    : [];
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
      ...overTls,
    ],
    ready: certificates ? LISTENS_ON_TCP : /API listen on/,
  });
}
