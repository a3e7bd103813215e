import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';

/**
 * A private directory with homes of GnuPG in it. Everything the demo makes is in there, and `remove`
 * leaves none of it: no file, no agent.
 */
export class Sandbox {
  readonly #homes: NodeJS.ProcessEnv[] = [];

  private constructor(
    readonly directory: string,
    readonly signal: AbortSignal,
  ) {}

  /** Makes the directory; when `signal` aborts, every program that `run` started is ended. */
  static async create(signal: AbortSignal): Promise<Sandbox> {
    // A socket's path is short, so the names in here are, too.
    return new Sandbox(await mkdtemp(join(tmpdir(), 'gpgb-')), signal);
  }

  /** Makes a home of GnuPG and returns the environment that goes with it. */
  async home(name: string): Promise<NodeJS.ProcessEnv> {
    const GNUPGHOME = join(this.directory, name);
    await mkdir(GNUPGHOME, { mode: 0o700 });
    const { SSH_AUTH_SOCK: _ssh, GIT_DIR: _dir, GIT_WORK_TREE: _tree, ...inherited } = process.env;
    const env = {
      ...inherited,
      GNUPGHOME,
      HOME: this.directory,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      LC_ALL: 'C',
    };
    this.#homes.push(env);
    return env;
  }

  /** Runs a program to its end and returns what it printed; it has to succeed. */
  run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
    return runProgram(program, args, env, this.directory, this.signal);
  }

  /** Ends every agent and deletes everything. */
  async remove(): Promise<void> {
    for (const env of this.#homes) {
      for (const args of [['--kill', 'all'], ['--remove-socketdir']]) {
        await runProgram('gpgconf', args, env, '/').catch(() => {});
      }
    }
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function runProgram(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
  signal?: AbortSignal,
): Promise<string> {
  return new Promise((resolve, reject) => {
    // A group of its own: a Ctrl-C reaches the demo alone, which ends the program and what that started.
    const child = spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const abort = () => {
      if (child.pid !== undefined) endGroup(child.pid);
    };
    signal?.addEventListener('abort', abort);
    if (signal?.aborted) abort();
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(failed(program, error.code === 'ENOENT' ? 'it is not installed' : error.message)),
    );
    child.once('close', (status) => {
      signal?.removeEventListener('abort', abort);
      if (status === 0) resolve(stdout);
      else reject(failed(program, stderr.trim().split('\n').at(-1) || `it ended with status ${status}`));
    });
  });
}

function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGTERM');
  } catch {
    // It has ended by itself.
  }
}

function failed(program: string, why: string): BridgeError {
  return new BridgeError('DEMO_FAILED', {
    what: `${program} failed in the demo`,
    why,
    fix: 'The demo needs git and GnuPG 2.2 or newer: `apt-get install git gnupg`.',
  });
}
