import { once } from 'node:events';
import net from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { tempDir } from './temp.ts';

/** What a line is answered with in the agent's place; undefined leaves it to the agent. */
export type Whim = (line: string) => string | undefined;

/**
 * A gpg-agent that changes its mind: a real one, some of whose answers a test gives in its place. It
 * answers one line after the other, and writes down what it gets when it gets it.
 */
export class FickleAgent {
  /** Every line of all clients. */
  readonly lines: string[] = [];
  whim: Whim = () => undefined;

  private constructor(readonly path: string) {}

  /** Listens until the test ends; `agent` is the path of the real one's socket. */
  static async start(agent: string): Promise<FickleAgent> {
    const fickle = new FickleAgent(join(await tempDir(), 'fickle'));
    const server = net.createServer((client) => fickle.#serve(client, net.connect(agent)));
    server.listen(fickle.path);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    return fickle;
  }

  #serve(client: net.Socket, agent: net.Socket): void {
    const [waiting, partial] = [[] as string[], { client: '', agent: '' }];
    let isBusy = true; // with its greeting
    let inquires = false;
    const next = () => {
      while (!isBusy && waiting.length > 0) {
        const line = waiting.shift()!;
        const answer = this.whim(line);
        if (answer !== undefined) {
          client.write(Buffer.from(answer, 'latin1'));
          continue;
        }
        // Data of an inquiry gets no answer of its own.
        isBusy = !(inquires && line.startsWith('D '));
        agent.write(Buffer.from(`${line}\n`, 'latin1'));
      }
    };
    client.on('data', (bytes: Buffer) => {
      const lines = (partial.client + bytes.toString('latin1')).split('\n');
      partial.client = lines.pop() ?? '';
      this.lines.push(...lines);
      waiting.push(...lines);
      next();
    });
    agent.on('data', (bytes: Buffer) => {
      client.write(bytes);
      const lines = (partial.agent + bytes.toString('latin1')).split('\n');
      partial.agent = lines.pop() ?? '';
      for (const line of lines) {
        if (!/^(?:OK|ERR|INQUIRE)\b/.test(line)) continue;
        isBusy = false;
        inquires = line.startsWith('INQUIRE');
      }
      next();
    });
    client.on('close', () => agent.destroy()).on('error', () => {});
    agent.on('close', () => client.destroy()).on('error', () => {});
  }
}
