import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { AgentConnection } from '@gpg-bridge/core/host/connect';
import { onTestFinished } from 'vitest';

/** How a ScriptedAgent treats its clients. */
export interface ScriptedAgentOptions {
  /** Sent at once to everybody who connects; gpg-agent's own greeting unless said. */
  greeting?: string;
  /** Whether it reads what clients send; without it their bytes stay in the kernel. */
  reads?: boolean;
  /** A line behind which it reads no more. */
  readsUntil?: string;
  /** What it says to a command line; nothing when undefined. */
  answer?: (line: string) => string | undefined;
}

/** A listener that behaves as a test needs it, for what no gpg-agent can be made to do. Ended with the test. */
export class ScriptedAgent {
  /** Everything that was read, from all clients. */
  received = '';
  /** The agent's ends of its connections, in order. */
  readonly peers: net.Socket[] = [];
  /** The bridge's ends of them. */
  readonly sockets: net.Socket[] = [];
  readonly #server: net.Server;

  private constructor(private readonly options: ScriptedAgentOptions) {
    this.#server = net.createServer({ pauseOnConnect: options.reads === false, noDelay: true }, (peer) =>
      this.#serve(peer),
    );
  }

  /** Listens on a free port: a TCP connection can be reset at any moment, which a Unix socket can't. */
  static async start(options: ScriptedAgentOptions = {}): Promise<ScriptedAgent> {
    const agent = new ScriptedAgent(options);
    agent.#server.listen(0, '127.0.0.1');
    await once(agent.#server, 'listening');
    onTestFinished(() => agent.stop());
    return agent;
  }

  /** What an AgentProxy connects with. */
  readonly connect = async (): Promise<AgentConnection> => {
    const socket = net.connect((this.#server.address() as AddressInfo).port, '127.0.0.1');
    const accepted = once(this.#server, 'connection');
    await once(socket, 'connect');
    await accepted;
    this.sockets.push(socket);
    return {
      socket,
      path: 'scripted',
      socketPath: 'scripted',
      kind: 'unix',
      preamble: Buffer.alloc(0),
      earlyCloseError: (cause) =>
        new BridgeError('AGENT_CLOSED', { what: 'early', why: 'no greeting', fix: 'None.', cause }),
    };
  };

  /** Resolves when `text` has been read. */
  async hasRead(text: string): Promise<void> {
    while (!this.received.includes(text)) await once(this.#server, 'read');
  }

  async stop(): Promise<void> {
    for (const peer of this.peers) peer.destroy();
    for (const socket of this.sockets) socket.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(peer: net.Socket): void {
    this.peers.push(peer);
    peer.on('error', () => {});
    const { greeting = 'OK Pleased to meet you\n', reads = true, readsUntil, answer } = this.options;
    peer.write(greeting, 'latin1');
    if (!reads) return;
    let rest = '';
    peer.on('data', (chunk) => {
      this.received += chunk.toString('latin1');
      rest += chunk.toString('latin1');
      const lines = rest.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const said = answer?.(line);
        if (said !== undefined) peer.write(said, 'latin1');
        if (line === readsUntil) peer.pause();
      }
      this.#server.emit('read');
    });
  }
}
