import { writeFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** How a TcpAgent behaves; by default as gpg-agent on Windows does. */
export interface TcpAgentOptions {
  nonce: Buffer;
  /** `cygwin8`: libassuan's 8 bytes of credentials; `cygwin12`: Cygwin's own 12. */
  form?: 'windows' | 'cygwin8' | 'cygwin12';
  onWrongNonce?: 'fin' | 'reset';
  /** What it answers to GETINFO restricted. */
  restricted?: boolean;
  /** Gives this back in place of the nonce (Cygwin). */
  echo?: Buffer;
  port?: number;
}

/**
 * gpg-agent's TCP side as far as a client sees it, written from what the real one does: it says nothing
 * until 16 bytes have come, waits for them without a timeout, and sends a line and its LF in two writes.
 */
export class TcpAgent {
  readonly commands: string[] = [];
  /** Whatever came in the place of credentials, for each Cygwin connection. */
  readonly credentials: Buffer[] = [];
  connections = 0;
  readonly #server: net.Server;
  readonly #open = new Set<net.Socket>();

  private constructor(private readonly options: TcpAgentOptions) {
    this.#server = net.createServer((socket) => this.#serve(socket));
  }

  /** Listens on a free port of the loopback interface until the test ends. */
  static async start(options: TcpAgentOptions): Promise<TcpAgent> {
    const agent = new TcpAgent(options);
    await new Promise<void>((resolve, reject) => {
      agent.#server.once('error', reject);
      agent.#server.listen(options.port ?? 0, '127.0.0.1', resolve);
    });
    onTestFinished(() => agent.stop());
    return agent;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Writes this agent's socket file; another nonce or port makes it a wrong one. */
  async writeFile(path: string, { nonce = this.options.nonce, port = this.port } = {}): Promise<void> {
    if ((this.options.form ?? 'windows') === 'windows') {
      await writeFile(path, Buffer.concat([Buffer.from(`${port}\n`), nonce]));
      return;
    }
    // Words of memory on a little-endian machine, printed as numbers.
    const words = [0, 4, 8, 12].map((at) =>
      nonce.readUInt32LE(at).toString(16).padStart(8, '0').toUpperCase(),
    );
    await writeFile(path, `!<socket >${port} s ${words.join('-')}\0`);
  }

  /** Closes every connection and stops listening. */
  async stop(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: net.Socket): void {
    this.connections += 1;
    this.#open.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {}).on('close', () => this.#open.delete(socket));
    void this.#converse(socket);
  }

  async #converse(socket: net.Socket): Promise<void> {
    const { nonce, form = 'windows', echo } = this.options;
    const reader = new ByteReader(socket);
    const given = await reader.take(16);
    if (!given?.equals(nonce)) {
      if (this.options.onWrongNonce === 'reset') socket.resetAndDestroy();
      else socket.end();
      return;
    }
    if (form !== 'windows') {
      socket.write(echo ?? nonce);
      const size = form === 'cygwin8' ? 8 : 12;
      const credentials = await reader.take(size);
      if (!credentials) return;
      this.credentials.push(credentials);
      socket.write(Buffer.alloc(size, 7));
    }
    say(socket, 'OK Pleased to meet you, process 1');
    for (let line: string | undefined; (line = await reader.line()) !== undefined; ) {
      this.commands.push(line);
      if (line === 'GETINFO restricted' && !this.options.restricted) say(socket, 'ERR 67109115 False');
      else say(socket, 'OK');
      if (line === 'BYE') socket.end();
    }
  }
}

function say(socket: net.Socket, line: string): void {
  socket.write(line);
  setImmediate(() => socket.write('\n'));
}

/** Takes bytes and lines off a socket as they come; undefined at its end. */
class ByteReader {
  #bytes: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};

  constructor(socket: net.Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#wake();
    });
    socket.on('close', () => {
      this.#ended = true;
      this.#wake();
    });
  }

  async take(length: number): Promise<Buffer | undefined> {
    while (this.#bytes.length < length) if (!(await this.#more())) return undefined;
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return taken;
  }

  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#bytes.indexOf(0x0a);
      if (end >= 0) return (await this.take(end + 1))?.toString('latin1', 0, end);
      if (!(await this.#more())) return undefined;
    }
  }

  #more(): Promise<boolean> {
    if (this.#ended) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#wake = () => resolve(!this.#ended);
    });
  }
}
