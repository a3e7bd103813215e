import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

/** Reads commands from descriptor 3, each ended by a NUL, and says after each with a NUL that it has ended. */
const LOOP = String.raw`
while IFS= read -r -d '' command <&3; do
  eval "$command" </dev/null 2>&1 3<&-
  printf '\0'
done`;

/** A shell that somebody types commands into, one after the other; it remembers directory and variables. */
export class BashSession {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #printed = '';

  constructor(env: NodeJS.ProcessEnv, cwd: string) {
    this.#child = spawn('bash', ['--norc', '--noprofile', '-c', LOOP], {
      env,
      cwd,
      stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
    });
    this.#exited = once(this.#child, 'close');
    (this.#child.stdout as Readable).setEncoding('utf8');
  }

  /** Runs a command, and returns what it wrote to both outputs, as a terminal would show it. */
  async run(command: string): Promise<string> {
    const stdout = this.#child.stdout as Readable;
    (this.#child.stdio[3] as Writable).write(`${command}\0`);
    for (;;) {
      const end = this.#printed.indexOf('\0');
      if (end >= 0) {
        const output = this.#printed.slice(0, end);
        this.#printed = this.#printed.slice(end + 1);
        return output;
      }
      const [text] = await Promise.race([once(stdout, 'data'), this.#exited.then(() => [undefined])]);
      if (text === undefined) throw new Error(`the shell ended at ${command}:\n${this.#printed}`);
      this.#printed += text;
    }
  }

  /** Ends it. */
  async close(): Promise<void> {
    (this.#child.stdio[3] as Writable).end();
    await this.#exited;
  }
}
