import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';

/** How a program ended and what it printed. */
export interface Finished {
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: Buffer;
  stderr: string;
}

/** How long a program may take: less than a test may, so that the error names the program. */
const LIMIT_MS = 100_000;

/** The same for one that builds something. */
export const BUILD_LIMIT_MS = 900_000;

/** Options for `run`. */
export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  input?: string | Buffer;
  limitMs?: number;
}

/** A program was killed because it did not end. */
export class DidNotEnd extends Error {}

/**
 * Runs a program to its end and returns what came of it; never throws for a bad status. One that does not end is
 * killed, and that is an error: else whatever hangs would cost a test, and each of its hooks, all their time.
 */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: options.env ?? process.env, cwd: options.cwd, stdio: 'pipe' });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    child.stdin.on('error', () => {}); // a program that does not read its input may be gone already
    child.stdin.end(options.input);
    const limitMs = options.limitMs ?? LIMIT_MS;
    const limit = setTimeout(() => {
      child.kill('SIGKILL');
      const said = Buffer.concat(stderr).toString();
      reject(new DidNotEnd(`${command} ${args.join(' ')} did not end within ${limitMs / 1000} s:\n${said}`));
    }, limitMs);
    child.once('error', (error) => {
      clearTimeout(limit);
      reject(error);
    });
    child.once('close', (status, signal) => {
      clearTimeout(limit);
      resolve({ status, signal, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() });
    });
  });
}

/** Runs a program that has to succeed, and returns its standard output as text. */
export async function runOk(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  return outputOf(command, args, await run(command, args, options));
}

/** The standard output of a program that has to have succeeded. */
export function outputOf(command: string, args: readonly string[], done: Finished): string {
  if (done.status !== 0) {
    throw new Error(`${command} ${args.join(' ')} ended with ${done.status ?? done.signal}:\n${done.stderr}`);
  }
  return done.stdout.toString();
}

/** Stops a process, and returns when it stands still: on a busy machine the signal alone takes its time. */
export async function stopProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  while (!/^State:\s+T/m.test(await readFile(`/proc/${pid}/status`, 'latin1'))) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Whether a process runs or is stopped; one that has ended and that nobody has asked about yet does not. */
export async function isAlive(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => 'State: X');
  return !/^State:\s+[XZ]/m.test(status);
}

/** Returns when a process has ended. */
export async function untilEnded(pid: number): Promise<void> {
  while (await isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}
