import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

/** What one client sent and received, as strings of one character a byte. */
export interface Conversation {
  sent: string;
  received: string;
}

/** Listens in an agent's place, leads its clients to that agent, and writes down what goes both ways. */
export class RecordingRelay {
  #conversations: Conversation[] = [];
  #ended: Promise<unknown>[] = [];

  /** Listens at a path until the test ends. */
  static async listen(path: string, agent: string): Promise<RecordingRelay> {
    const relay = new RecordingRelay();
    const server = net.createServer({ allowHalfOpen: true }, (client) => relay.#join(client, agent));
    server.listen(path);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    return relay;
  }

  /** The conversations since the last call, in the order in which they began; waits for their ends. */
  async take(): Promise<Conversation[]> {
    await Promise.all(this.#ended.splice(0));
    return this.#conversations.splice(0);
  }

  #join(client: net.Socket, path: string): void {
    const agent = net.connect({ path, allowHalfOpen: true });
    const conversation = { sent: '', received: '' };
    this.#conversations.push(conversation);
    this.#ended.push(Promise.all([once(client, 'close'), once(agent, 'close')]));
    client.on('data', (bytes: Buffer) => {
      conversation.sent += bytes.toString('latin1');
      agent.write(bytes);
    });
    agent.on('data', (bytes: Buffer) => {
      conversation.received += bytes.toString('latin1');
      client.write(bytes);
    });
    client.on('end', () => agent.end()).on('error', () => agent.destroy());
    agent.on('end', () => client.end()).on('error', () => client.destroy());
  }
}
