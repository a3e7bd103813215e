import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { onTestFinished } from 'vitest';

/** What a holder does with its clients: nothing, words that are no agent's, a close, or another socket's bytes. */
export type Behaviour = 'silent' | 'garbage' | 'close' | { relayTo: string };

const PROGRAM = `
const net = require('node:net');
const { rmSync } = require('node:fs');
const [path, behaviour, relayTo] = process.argv.slice(1);
const serve = {
  silent() {},
  garbage(client) { client.write('HTTP/1.1 400 Bad Request\\n\\n'); },
  close(client) { client.destroy(); },
  relay(client) {
    const agent = net.connect(relayTo);
    client.on('error', () => agent.destroy()).pipe(agent).on('error', () => client.destroy()).pipe(client);
  },
}[behaviour];
const server = net.createServer((client) => { client.on('error', () => {}); serve(client); });
// A listener that looks after the name may be back in between.
const take = () => { rmSync(path, { force: true }); server.listen(path); };
server.on('error', (error) => { if (error.code !== 'EADDRINUSE') throw error; take(); });
server.on('listening', () => process.stdout.write('listening'));
take();
`;

/** A process of its own that listens on a Unix socket; ended with the test. */
export class SocketHolder {
  private constructor(private readonly child: ChildProcess) {}

  /** Starts one, and returns when it listens; what had the path is replaced. Its program can be put into a file whose name then shows. */
  static async start(path: string, behaviour: Behaviour, file?: string): Promise<SocketHolder> {
    const args = typeof behaviour === 'string' ? [path, behaviour] : [path, 'relay', behaviour.relayTo];
    if (file) await writeFile(file, PROGRAM.replace('slice(1)', 'slice(2)'));
    const program = file ? [file] : ['-e', PROGRAM];
    const child = spawn(process.execPath, [...program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    const holder = new SocketHolder(child);
    onTestFinished(() => holder.end());
    await once(child.stdout!, 'data');
    return holder;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Ends it; with SIGKILL its socket file stays behind. */
  async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exit = once(this.child, 'exit');
    this.child.kill(signal);
    await exit;
  }
}
