import { once } from 'node:events';
import net from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { tempDir } from './temp.ts';

/** Both ends of one connection to a Unix socket, as RequestProxy accepts it. */
export interface ClientPair {
  /** The client's end; half-open, so that it may end its side and go on reading. */
  client: TestClient;
  /** The bridge's end. */
  socket: net.Socket;
}

/** Connects a client to a listener of the test's own; both ends go with the test. */
export async function clientPair(): Promise<ClientPair> {
  const path = join(await tempDir(), 's');
  const server = net.createServer({ allowHalfOpen: true });
  server.listen(path);
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[net.Socket]>;
  const client = await TestClient.connect(path);
  const [socket] = await accepted;
  server.close();
  onTestFinished(() => void socket.destroy());
  return { client, socket };
}

/** An Assuan client that keeps what it reads. Ended with the test. */
export class TestClient {
  #read = '';
  #ended = false;

  private constructor(readonly socket: net.Socket) {
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      this.#read += chunk.toString('latin1');
    });
    socket.on('end', () => {
      this.#ended = true;
    });
  }

  static async connect(path: string): Promise<TestClient> {
    const socket = net.connect({ path, allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    return new TestClient(socket);
  }

  /** What has come so far. */
  get text(): string {
    return this.#read;
  }

  /** Whether the other end has ended its side. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Sends this, if it is anything: the kernel refuses even an empty write to an end that has closed. */
  write(text: string): void {
    if (text !== '') this.socket.write(text, 'latin1');
  }

  /** Everything up to `mark`, once it has come; throws if the connection ends before. */
  async reads(mark: string): Promise<string> {
    while (!this.#read.includes(mark)) {
      if (this.#ended || this.socket.destroyed) throw new Error(`ended before ${mark}: ${this.#read}`);
      await this.#more();
    }
    return this.#read;
  }

  /** Everything, once the other end has closed. */
  async readsAll(): Promise<string> {
    while (!this.#ended && !this.socket.destroyed) await this.#more();
    return this.#read;
  }

  /** Forgets what was read. */
  forget(): void {
    this.#read = '';
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      const { socket } = this;
      const done = () => {
        socket.off('data', done).off('end', done).off('close', done);
        resolve();
      };
      socket.on('data', done).on('end', done).on('close', done);
    });
  }
}
