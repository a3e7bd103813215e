import { rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { makeTempDir } from '../temp.ts';
import { DockerEngine } from './docker.ts';
import type { ImageName } from './images.ts';
import { PodmanEngine } from './podman.ts';

/** What a test file asks for: an engine's address, or the name of an image in it. */
export interface ServiceRequest {
  engine: 'docker' | 'podman';
  image?: ImageName;
}

/** What it gets. */
export type ServiceAnswer = { ok: true; value: unknown } | { ok: false; message: string };

const STARTERS = { docker: () => DockerEngine.start(), podman: () => PodmanEngine.start() };

/**
 * Starts each engine, and imports each image, once for all test files of a run, when the first of them
 * asks. It lives in the process that outlives them all, and ends what it started.
 */
export class EngineService {
  private readonly engines = new Map<ServiceRequest['engine'], Promise<DockerEngine | PodmanEngine>>();

  private constructor(
    private readonly dir: string,
    private readonly server: Server,
  ) {}

  /** Starts the service alone, and no engine yet. */
  static async start(): Promise<EngineService> {
    const dir = await makeTempDir();
    // A request ends with its sender's half of the connection.
    const server = createServer({ allowHalfOpen: true });
    const service = new EngineService(dir, server);
    server.on('connection', (socket) => void service.serve(socket));
    await new Promise<void>((resolve) => server.listen(service.socketPath, resolve));
    return service;
  }

  /** Where test files ask. */
  get socketPath(): string {
    return join(this.dir, 'engines.sock');
  }

  /** Ends every engine that was started, and the service. */
  async stop(): Promise<void> {
    this.server.close();
    const engines = await Promise.allSettled(this.engines.values());
    for (const engine of engines) if (engine.status === 'fulfilled') await engine.value.stop();
    await rm(this.dir, { recursive: true, force: true });
  }

  private async serve(socket: Socket): Promise<void> {
    socket.on('error', () => {}); // a test file that ended meanwhile needs no answer
    let answer: ServiceAnswer;
    try {
      answer = { ok: true, value: await this.answer(JSON.parse(await readAll(socket)) as ServiceRequest) };
    } catch (error) {
      answer = { ok: false, message: error instanceof Error ? error.message : String(error) };
    }
    socket.end(JSON.stringify(answer));
  }

  private async answer({ engine: kind, image }: ServiceRequest): Promise<unknown> {
    let starting = this.engines.get(kind);
    if (!starting) {
      starting = STARTERS[kind]();
      this.engines.set(kind, starting);
    }
    const engine = await starting;
    return image ? engine.ensureImage(image) : engine.address;
  }
}

/** Everything up to the end of the sender's half; a stream consumer would destroy the other half too. */
function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (piece: string) => {
      text += piece;
    });
    socket.once('end', () => resolve(text));
    socket.once('error', reject);
  });
}
