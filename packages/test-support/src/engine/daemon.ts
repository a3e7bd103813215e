import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** What to start and how to tell that it is up. */
export interface DaemonOptions {
  command: string;
  args: readonly string[];
  /** The log line that says that the daemon can be used. */
  ready: RegExp;
  env?: NodeJS.ProcessEnv;
}

const KEPT_LOG_LINES = 40;

/** How long one may take to be ready, and to end: far more than any needs, and less than a test may take. */
const START_LIMIT_MS = 100_000;
const STOP_LIMIT_MS = 60_000;

/**
 * A daemon that stays in the foreground and logs to stderr. The kernel ends it when this process ends
 * in any way, so that not even a killed test run leaves one behind.
 */
export class Daemon {
  private constructor(
    private readonly child: ChildProcess,
    private readonly exited: Promise<unknown>,
    /** The line that said that it can be used. */
    readonly readyLine: string,
  ) {}

  /** Starts it and waits until it logs that it is ready. */
  static async start(options: DaemonOptions): Promise<Daemon> {
    const child = spawn('setpriv', ['--pdeathsig', 'TERM', options.command, ...options.args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: options.env ?? process.env,
    });
    const [exited, closed] = [once(child, 'exit'), once(child, 'close')];
    const lines: string[] = [];
    let limit: NodeJS.Timeout | undefined;
    const readyLine = await new Promise<string>((resolve, reject) => {
      const fail = (what: string) => reject(new Error(`${options.command} ${what}:\n${lines.join('\n')}`));
      child.once('error', reject);
      createInterface(child.stderr).on('line', (line) => {
        lines.push(line);
        if (lines.length > KEPT_LOG_LINES) lines.shift();
        if (options.ready.test(line)) resolve(line);
      });
      closed.then(([status]) => fail(`ended with ${status}`), reject);
      limit = setTimeout(() => {
        fail(`was not ready within ${START_LIMIT_MS / 1000} s`);
        child.kill('SIGKILL');
      }, START_LIMIT_MS);
    }).finally(() => clearTimeout(limit));
    return new Daemon(child, exited, readyLine);
  }

  /** Its process id. */
  get pid(): number {
    return this.child.pid!;
  }

  /** Sends a signal, SIGTERM unless said, and waits for the end; one that does not end of it is killed. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.child.kill(signal);
    const limit = setTimeout(() => this.child.kill('SIGKILL'), STOP_LIMIT_MS);
    await this.exited;
    clearTimeout(limit);
  }
}
