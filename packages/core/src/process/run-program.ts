import { type ChildProcess, spawn } from 'node:child_process';

/** How a program ended and what it printed. */
export interface ProgramResult {
  /** Undefined when it was ended by a signal. */
  status: number | undefined;
  signal: NodeJS.Signals | undefined;
  stdout: Buffer;
  /** Cut at `maxStderr`. */
  stderr: string;
  /** Why it was ended by the bridge, if it was. */
  aborted?: 'timeout' | 'output-limit' | 'signal';
}

/** Options for `runProgram`. */
export interface RunProgramOptions {
  env?: NodeJS.ProcessEnv | undefined;
  cwd?: string;
  input?: Buffer;
  timeoutMs?: number;
  /** Of standard output; a program that prints more is ended. */
  maxOutput?: number;
  maxStderr?: number;
  /** Runs it in a process group of its own, which a Ctrl-C in the terminal does not reach. */
  ownGroup?: boolean;
  /** Ends the program, and with `ownGroup` all that it started. */
  signal?: AbortSignal;
}

/** Programs that run: one that is not waited for any more does not outlive this process. */
const running = new Set<ChildProcess>();

/** How long to read on after the exit: a daemon that the program started may keep the pipes open for ever. */
const DRAIN_MS = 250;

/** Runs a program without a shell, with bounded output and time; rejects only when it can't be started. */
export function runProgram(
  program: string,
  args: readonly string[],
  options: RunProgramOptions = {},
): Promise<ProgramResult> {
  const { env = process.env, cwd, input, timeoutMs = 30_000, ownGroup = false, signal } = options;
  const { maxOutput = 1024 * 1024, maxStderr = 64 * 1024 } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env,
      cwd,
      stdio: 'pipe',
      windowsHide: true,
      detached: ownGroup,
    });
    child.once('error', reject);
    if (child.pid === undefined) return; // `error` follows; without descriptors left there are no streams either
    if (running.size === 0) process.on('exit', endAll);
    running.add(child);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let stdoutLength = 0;
    let stderrLength = 0;
    let aborted: ProgramResult['aborted'];
    let drain: NodeJS.Timeout | undefined;

    const abort = (reason: NonNullable<ProgramResult['aborted']>) => {
      aborted ??= reason;
      child.kill('SIGKILL');
    };
    const timer = setTimeout(abort, timeoutMs, 'timeout');
    const interrupt = () => {
      aborted ??= 'signal';
      if (ownGroup) endGroup(child);
      else child.kill();
    };
    signal?.addEventListener('abort', interrupt);
    if (signal?.aborted) interrupt();
    child.stdout.on('data', (chunk: Buffer) => {
      stdoutLength += chunk.length;
      if (stdoutLength > maxOutput) abort('output-limit');
      else stdout.push(chunk);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      const room = maxStderr - stderrLength;
      if (room <= 0) return;
      stderr.push(chunk.subarray(0, room));
      stderrLength += Math.min(room, chunk.length);
    });
    child.stdin.on('error', () => {}); // a program need not read its input
    child.stdin.end(input);

    child.once('exit', () => {
      running.delete(child);
      if (running.size === 0) process.off('exit', endAll);
      clearTimeout(timer);
      drain = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, DRAIN_MS);
    });
    child.once('close', (status, endedBy) => {
      clearTimeout(drain);
      signal?.removeEventListener('abort', interrupt);
      resolve({
        status: status ?? undefined,
        signal: endedBy ?? undefined,
        stdout: Buffer.concat(stdout),
        stderr: Buffer.concat(stderr).toString(),
        ...(aborted && { aborted }),
      });
    });
  });
}

function endAll(): void {
  for (const child of running) child.kill();
}

/** Ends a program that leads a process group, and everything else in it. */
function endGroup(leader: ChildProcess): void {
  try {
    // Windows has no process groups.
    if (process.platform === 'win32') leader.kill();
    else process.kill(-leader.pid!, 'SIGTERM');
  } catch {
    // It has ended by itself.
  }
}

/** Why a program failed, in one line fit for an error message. */
export function describeFailure(result: ProgramResult): string {
  if (result.aborted === 'timeout') return 'it did not finish in time';
  if (result.aborted === 'output-limit') return 'it printed more than expected';
  if (result.aborted === 'signal') return 'it was interrupted';
  const lines = result.stderr
    .split(/\r?\n/)
    .map((line) => line.replace(/[\x00-\x1f\x7f]/g, ' ').trim())
    .filter((line) => line !== '' && !line.startsWith('[GNUPG:]'));
  const ending = result.signal ? `it was ended by ${result.signal}` : `it ended with status ${result.status}`;
  return lines.length === 0 ? ending : `${ending}, saying "${lines.slice(-3).join(' / ').slice(0, 400)}"`;
}
