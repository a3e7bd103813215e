import { spawn } from 'node:child_process';

/** How a program ended and what it printed. */
export interface ProgramResult {
  /** Undefined when it was ended by a signal. */
  status: number | undefined;
  signal: NodeJS.Signals | undefined;
  stdout: Buffer;
  /** Cut at `maxStderr`. */
  stderr: string;
  /** Why it was ended by the bridge, if it was. */
  aborted?: 'timeout' | 'output-limit';
}

/** Options for `runProgram`. */
export interface RunProgramOptions {
  env?: NodeJS.ProcessEnv | undefined;
  input?: Buffer;
  timeoutMs?: number;
  /** Of standard output; a program that prints more is ended. */
  maxOutput?: number;
  maxStderr?: number;
}

/** An agent that a program started may keep the pipes open: how long to read on after the exit. */
const DRAIN_MS = 250;

/** Runs a program without a shell, with bounded output and time; rejects only when it can't be started. */
export function runProgram(
  program: string,
  args: readonly string[],
  { env, input, timeoutMs = 30_000, maxOutput = 1024 * 1024, maxStderr = 64 * 1024 }: RunProgramOptions = {},
): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env: env ?? process.env, stdio: 'pipe', windowsHide: true });
    child.once('error', reject);
    if (child.pid === undefined) return; // `error` follows; without descriptors left there are no streams either
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
      clearTimeout(timer);
      drain = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, DRAIN_MS);
    });
    child.once('close', (status, signal) => {
      clearTimeout(drain);
      resolve({
        status: status ?? undefined,
        signal: signal ?? undefined,
        stdout: Buffer.concat(stdout),
        stderr: Buffer.concat(stderr).toString(),
        ...(aborted && { aborted }),
      });
    });
  });
}

/** Why a program failed, in one line fit for an error message. */
export function describeFailure(result: ProgramResult): string {
  if (result.aborted === 'timeout') return 'it did not finish in time';
  if (result.aborted === 'output-limit') return 'it printed more than expected';
  const lines = result.stderr
    .split(/\r?\n/)
    .map((line) => line.replace(/[\x00-\x1f\x7f]/g, ' ').trim())
    .filter((line) => line !== '' && !line.startsWith('[GNUPG:]'));
  const ending = result.signal ? `it was ended by ${result.signal}` : `it ended with status ${result.status}`;
  return lines.length === 0 ? ending : `${ending}, saying "${lines.slice(-3).join(' / ').slice(0, 400)}"`;
}
