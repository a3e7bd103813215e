import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { TcpRelay } from './tcp-relay.ts';
import { tempDir } from './temp.ts';

/** Runs a command on the machine at a port: its words in a line of JSON, then its input and output. */
const DIAL = `
const { connect } = require('node:net');
const [, , port, ...argv] = process.argv;
const line = connect({ port: Number(port), host: '127.0.0.1' });
line.write(JSON.stringify(argv) + '\\n');
process.stdin.pipe(line);
line.pipe(process.stdout);
line.on('error', () => process.exit(1)).once('close', () => process.exit(0));
`;

/**
 * A machine elsewhere, as far as a network can tell: what runs on it is reached through a relay alone, and learns of
 * its caller only what comes through that. Its processes end with the test.
 */
export class FarMachine {
  /** What was run here. */
  readonly processes: ChildProcess[] = [];
  readonly #server = createServer((line) => this.#serve(line));

  private constructor(
    private readonly env: NodeJS.ProcessEnv,
    private readonly dial: string,
  ) {}

  static async start(env: NodeJS.ProcessEnv): Promise<FarMachine> {
    const dial = join(await tempDir(), 'dial.cjs');
    await writeFile(dial, DIAL);
    const machine = new FarMachine(env, dial);
    machine.#server.listen(0, '127.0.0.1');
    await once(machine.#server, 'listening');
    onTestFinished(() => {
      machine.#server.close();
      for (const child of machine.running) child.kill('SIGKILL');
    });
    return machine;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** What still runs here. */
  get running(): ChildProcess[] {
    return this.processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  }

  /** For `--exec`: runs a command here, by way of a relay. */
  enter(relay: TcpRelay): string {
    return `${process.execPath} ${this.dial} ${relay.port}`;
  }

  #serve(line: Socket): void {
    line.on('error', () => {});
    let said = Buffer.alloc(0);
    const read = (bytes: Buffer) => {
      said = Buffer.concat([said, bytes]);
      const end = said.indexOf('\n');
      if (end < 0) return;
      line.off('data', read);
      const [program = '', ...args] = JSON.parse(said.toString('utf8', 0, end)) as string[];
      const child = spawn(program, args, { env: this.env, stdio: ['pipe', 'pipe', 'ignore'] });
      this.processes.push(child);
      child.stdin.on('error', () => {});
      child.stdin.write(said.subarray(end + 1));
      line.pipe(child.stdin);
      child.stdout.pipe(line);
    };
    line.on('data', read);
  }
}
