import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { within } from '@gpg-bridge/test-support/within';
import type { Phase } from './table.ts';

/** Where the programs are that stand in for others. */
export const PROGRAMS = join(import.meta.dirname, 'processes');

/** Far more than anything here takes on a busy machine. */
export const PATIENCE_MS = 30_000;

/** Returns when `look` has found what it looks for; also outside of a test, where `expect.poll` does not work. */
export async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; !(await look()); ) {
    if (Date.now() > end) throw new Error(`it never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has
  }
}

/** A program that is told things on its input and says things on its output. */
export class Program {
  printed = '';
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  readonly exited: Promise<unknown>;

  readonly #name: string;

  constructor(script: string, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.#name = basename(script);
    this.child = spawn(process.execPath, [script, ...args], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.exited = once(this.child, 'close');
    this.child.stdin.on('error', () => {}); // it may have ended
    this.child.stdout.setEncoding('latin1').on('data', (text: string) => {
      this.printed += text;
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  tell(text: string): void {
    this.child.stdin.write(text, 'latin1');
  }

  /** It may be greeted by the target's end; behind a command that waits, its connection to the agent is there. */
  async reachesAgent(): Promise<void> {
    this.tell('NOP\n');
    await this.says('\nOK\n');
    this.printed = this.printed.slice(0, -'OK\n'.length);
  }

  /** Returns when it has printed this; throws if it ends before, or never says it. */
  says(mark: string): Promise<void> {
    const complaint = () =>
      `${this.#name} never said ${JSON.stringify(mark)}, but ${JSON.stringify(this.printed)}`;
    return within(PATIENCE_MS, this.#untilPrinted(mark), complaint);
  }

  /** Returns when it has ended; `what` says in an error who did not. */
  async ends(what: string, ms = PATIENCE_MS): Promise<void> {
    await within(ms, this.exited, what);
  }

  /** Ends its input, at which it ends by itself. */
  async end(): Promise<void> {
    this.child.stdin.end();
    await this.ends(`${this.#name} did not end with its input`);
  }

  /** Ends it whatever it does: also one that stands still. */
  kill(): void {
    this.child.kill('SIGKILL');
  }

  async #untilPrinted(mark: string): Promise<void> {
    while (!this.printed.includes(mark)) {
      const ended = this.exited.then(() => 'ended');
      if ((await Promise.race([once(this.child.stdout, 'data'), ended])) !== 'ended') continue;
      if (!this.printed.includes(mark))
        throw new Error(`${this.#name} ended before ${mark}: ${this.printed}`);
    }
  }
}

/** A client as a process of its own; what it prints is what it was answered. */
export class Client extends Program {
  constructor(path: string) {
    super(join(PROGRAMS, 'client.mjs'), [path], process.env);
  }
}

/** An agent that can be held; see holder.mjs. */
export class Holder extends Program {
  private constructor(
    readonly path: string,
    readonly agentPath: string,
    readonly env: NodeJS.ProcessEnv,
  ) {
    super(join(PROGRAMS, 'holder.mjs'), [path, agentPath], env);
  }

  static async start(path: string, agentPath: string, env: NodeJS.ProcessEnv): Promise<Holder> {
    const holder = new Holder(path, agentPath, env);
    await holder.says('listening');
    return holder;
  }

  /** Holds its next client in a phase. */
  async hold(phase: Phase): Promise<void> {
    this.printed = '';
    this.tell(`hold ${phase}\n`);
    await this.says('ready');
  }

  release(): void {
    this.tell('release\n');
  }
}
