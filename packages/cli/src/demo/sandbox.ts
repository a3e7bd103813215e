import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { describeFailure, runProgram } from '@gpg-bridge/core/process/run-program';

/** A machine that is only slow makes its key in less. */
const TIMEOUT_MS = 600_000;

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
  async run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
    const { directory: cwd, signal } = this;
    const result = await runProgram(program, args, {
      env,
      cwd,
      timeoutMs: TIMEOUT_MS,
      ownGroup: true,
      signal,
    }).catch((error: NodeJS.ErrnoException) => {
      throw failed(program, error.code === 'ENOENT' ? 'it is not installed' : error.message);
    });
    if (result.status === 0) return result.stdout.toString();
    throw failed(program, result.stderr.trim().split('\n').at(-1) || describeFailure(result));
  }

  /** Ends every agent and deletes everything. */
  async remove(): Promise<void> {
    for (const env of this.#homes) {
      for (const args of [['--kill', 'all'], ['--remove-socketdir']]) {
        await runProgram('gpgconf', args, { env, cwd: '/', ownGroup: true }).catch(() => {});
      }
    }
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function failed(program: string, why: string): BridgeError {
  return new BridgeError('DEMO_FAILED', {
    what: `${program} failed in the demo`,
    why,
    fix: 'The demo needs git and GnuPG 2.2 or newer: `apt-get install git gnupg`.',
  });
}
