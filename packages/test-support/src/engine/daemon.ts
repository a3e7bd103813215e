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

/**
 * A daemon that stays in the foreground and logs to stderr. The kernel ends it when this process ends
 * in any way, so that not even a killed test run leaves one behind.
 */
export class Daemon {
  private constructor(
    private readonly child: ChildProcess,
    private readonly closed: Promise<unknown>,
    /** The line that said that it can be used. */
    readonly readyLine: string,
  ) {}

  /** Starts it and waits until it logs that it is ready. */
  static async start(options: DaemonOptions): Promise<Daemon> {
    const child = spawn('setpriv', ['--pdeathsig', 'TERM', options.command, ...options.args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: options.env ?? process.env,
    });
    const closed = once(child, 'close');
    const lines: string[] = [];
    const readyLine = await new Promise<string>((resolve, reject) => {
      child.once('error', reject);
      createInterface(child.stderr).on('line', (line) => {
        lines.push(line);
        if (lines.length > KEPT_LOG_LINES) lines.shift();
        if (options.ready.test(line)) resolve(line);
      });
      closed.then(
        ([status]) => reject(new Error(`${options.command} ended with ${status}:\n${lines.join('\n')}`)),
        reject,
      );
    });
    return new Daemon(child, closed, readyLine);
  }

  /** Its process id. */
  get pid(): number {
    return this.child.pid!;
  }

  /** Sends a signal, SIGTERM unless said, and waits for the end. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.child.kill(signal);
    await this.closed;
  }
}
