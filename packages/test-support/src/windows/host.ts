import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, watch } from 'node:fs';
import { mkdir, open, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { makeTempDir, removeDir } from '../temp.ts';
import { within } from '../within.ts';
import { nodeForWindows, WINE_PREFIX, type WindowsNode, windowsPath } from './programs.ts';

const DRIVER = fileURLToPath(new URL('./driver.mjs', import.meta.url));
/** How long Node may take to start. */
const START_LIMIT_MS = 100_000;
/** How long it may take to answer: one of twenty commands at once takes its time, and a test may take longer. */
const ANSWER_LIMIT_MS = 150_000;
/** How long Node may take to end before it is killed. */
const STOP_LIMIT_MS = 20_000;

/** How a program of Windows ended. */
export interface WindowsResult {
  status: number;
  stdout: string;
  stderr: string;
}

/** What is run there. */
export interface WindowsRun {
  /** Node itself unless said. */
  program?: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  input?: string;
  cwd?: string;
}

/** Node for Windows in Wine, which runs programs for a test. */
export class WindowsHost {
  /** What was not answered: what hangs in Wine hangs for the next request, too. */
  #unanswered: string | undefined;

  private constructor(
    private readonly child: ChildProcess,
    private readonly closed: Promise<unknown>,
    private readonly port: number,
    /** A directory of its own on this machine, with a blank in its name. */
    readonly directory: string,
  ) {}

  static async start(version: WindowsNode): Promise<WindowsHost> {
    const directory = join(await makeTempDir(), 'a host');
    await mkdir(directory);
    const log = await open(join(directory, 'driver.log'), 'w');
    const portFile = join(directory, 'port');
    const { DISPLAY: _display, ...inherited } = process.env;
    const child = spawn(
      'setpriv',
      ['--pdeathsig', 'KILL', 'wine', nodeForWindows(version), windowsPath(DRIVER), windowsPath(portFile)],
      {
        stdio: ['ignore', log.fd, log.fd],
        env: { ...inherited, LC_ALL: 'C.UTF-8', WINEPREFIX: WINE_PREFIX, WINEDEBUG: '-all' },
      },
    );
    const closed = once(child, 'close');
    await log.close();
    const ended = closed.then(async () => {
      throw new Error(`Node for Windows ended:\n${await readFile(join(directory, 'driver.log'), 'utf8')}`);
    });
    ended.catch(() => {}); // at the end it is meant to
    try {
      const printed = () => readFileSync(join(directory, 'driver.log'), 'utf8');
      const late = () => `Node for Windows did not start within ${START_LIMIT_MS / 1000} s:\n${printed()}`;
      await within(START_LIMIT_MS, Promise.race([untilThere(portFile), ended]), late);
    } catch (error) {
      child.kill('SIGKILL');
      await removeDir(dirname(directory));
      throw error;
    }
    const port = Number(await readFile(portFile, 'utf8'));
    return new WindowsHost(child, closed, port, directory);
  }

  /** Runs a program to its end. */
  run(options: WindowsRun): Promise<WindowsResult> {
    return this.ask<WindowsResult>('run', options);
  }

  /** Runs a program that has to succeed; returns what it printed. */
  async runOk(options: WindowsRun): Promise<string> {
    const { status, stdout, stderr } = await this.run(options);
    if (status !== 0) throw new Error(`${options.args.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
    return stdout;
  }

  /** Kills a process by the number that it has there. */
  async kill(pid: number): Promise<void> {
    await this.ask('kill', { pid });
  }

  isRunning(pid: number): Promise<boolean> {
    return this.ask<boolean>('isRunning', { pid });
  }

  /** Joins a named pipe there with a port of this machine. */
  async relay(pipe: string, port: number): Promise<void> {
    await this.ask('relay', { pipe, port });
  }

  /** Ends Node; one that does not end when it is asked to is killed. */
  async stop(): Promise<void> {
    const limit = setTimeout(() => this.child.kill('SIGKILL'), this.#unanswered ? 0 : STOP_LIMIT_MS);
    await this.ask('exit', {}).catch(() => {});
    await this.closed;
    clearTimeout(limit);
    await removeDir(dirname(this.directory));
  }

  private async ask<T>(action: string, argument: object): Promise<T> {
    if (this.#unanswered) throw new Error(`not asked for '${action}', as before that: ${this.#unanswered}`);
    const socket = connect(this.port, '127.0.0.1');
    socket.write(`${JSON.stringify({ action, ...argument })}\n`);
    const answer = await within(ANSWER_LIMIT_MS, text(socket), () => {
      const what = JSON.stringify({ action, ...argument, env: undefined });
      this.#unanswered = `Node for Windows did not answer within ${ANSWER_LIMIT_MS / 1000} s: ${what}`;
      return this.#unanswered;
    }).finally(() => socket.destroy());
    if (answer === '') {
      const log = await readFile(join(this.directory, 'driver.log'), 'utf8');
      throw new Error(`Node for Windows ended before it answered '${action}':\n${log}`);
    }
    const { value, error } = JSON.parse(answer) as { value: T; error?: string };
    if (error !== undefined) throw new Error(error);
    return value;
  }
}

async function untilThere(path: string): Promise<void> {
  await new Promise<void>((resolve) => {
    const look = () => {
      if (!existsSync(path)) return;
      watcher.close();
      resolve();
    };
    const watcher = watch(dirname(path), { persistent: false }, look);
    look();
  });
}
