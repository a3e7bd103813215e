import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { ExecStream, ExitInfo, TerminalStream } from './engine.ts';
import { StoppedProcesses } from './stopped-processes.ts';
import { type TerminalGate, type TerminalReader, terminalStream } from './terminal-gate.ts';

/** Signals that end this process, and before that the command that it runs. */
const ENDING_SIGNALS = ['SIGTERM', 'SIGHUP'] as const;
/** Signals of the keyboard: the terminal sends them to everybody in front of it, so they are not for this process. */
const KEYBOARD_SIGNALS = ['SIGINT', 'SIGQUIT'] as const;

/** The end of a command that has lost its terminal. */
const HUNG_UP: ExitInfo = { status: null, signal: 'SIGHUP' };

/** Runs a program of this machine on this process's own streams; resolves to how it ended. */
export async function attachProcess(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  gate?: TerminalGate,
): Promise<ExitInfo> {
  // In this process's group: a program in another one could not read from the terminal.
  const child = spawn(program, args, { env, stdio: 'inherit' });
  const read = child.pid === undefined ? undefined : gate?.readBy(new StoppedProcesses(child.pid));
  const passOn = (signal: NodeJS.Signals) => void child.kill(signal);
  const leave = () => {};
  for (const signal of ENDING_SIGNALS) process.on(signal, passOn);
  for (const signal of KEYBOARD_SIGNALS) process.on(signal, leave);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', (error) => reject(notRun(program, error)));
      child.once('exit', (status, signal) => resolve({ status, signal }));
      // One of another user can't be killed.
      void gate?.lost.then(() => resolve(HUNG_UP));
    });
  } finally {
    read?.();
    for (const signal of ENDING_SIGNALS) process.off(signal, passOn);
    for (const signal of KEYBOARD_SIGNALS) process.off(signal, leave);
  }
}

/** Joins a command in a target with this process's own streams until it ends. */
export async function attachStreams(exec: ExecStream, gate?: TerminalGate): Promise<ExitInfo> {
  const { stdin, stdout, stderr } = process;
  stdin.on('error', () => exec.stdin.end());
  exec.stdin.on('error', () => {}); // the command may have ended, or closed its input
  const cut = () => exec.kill();
  const joined = new JoinedStreams(cut, exec.stdin, [exec.stdout, stdout], [exec.stderr, stderr]);
  // Also if only the output is a terminal: what it shows can make it send something.
  const read = terminalStream() === undefined ? undefined : gate?.readBy(joined);
  try {
    return await interruptible(exec.exited, cut, gate);
  } finally {
    read?.();
    letGoOfInput();
  }
}

/** Joins a command that has a terminal in a target with the terminal of this process until it ends. */
export async function attachTerminal(terminal: TerminalStream, gate?: TerminalGate): Promise<ExitInfo> {
  const { stdin, stdout } = process;
  const { stream } = terminal;
  const resize = () => terminal.resize({ rows: stdout.rows, columns: stdout.columns });
  const restore = () => void stdin.setRawMode(false);
  // Whatever ends this process, its terminal must not stay without echo and line ends.
  process.once('exit', restore);
  stdin.setRawMode(true);
  stdin.on('error', () => {}); // a terminal that was closed sends SIGHUP, too
  const cut = () => stream.destroy();
  const joined = new JoinedStreams(cut, stream, [stream, stdout]);
  const read = gate?.readBy(joined);
  stdout.on('resize', resize);
  resize();
  // An engine that is slow to make the terminal may not have taken the size: there is one when something is shown.
  stream.once('data', resize);
  try {
    return await interruptible(terminal.exited, cut, gate);
  } finally {
    read?.();
    stdout.off('resize', resize);
    process.off('exit', restore);
    restore();
    letGoOfInput();
  }
}

/**
 * This process's own streams, joined with those of a command. What that prints waits, too: it would stand in the midst
 * of a prompt, and whoever has seen a result may type again.
 */
class JoinedStreams implements TerminalReader {
  readonly #joints: readonly (readonly [Readable, Writable])[];

  constructor(
    private readonly cut: () => void,
    input: Writable,
    ...outputs: (readonly [Readable, Writable])[]
  ) {
    this.#joints = [[process.stdin, input], ...outputs];
    this.goOn();
  }

  async stop(): Promise<void> {
    for (const [from, to] of this.#joints) from.unpipe(to);
    // It stops reading in the same turn, behind what is going on.
    await new Promise((resolve) => setImmediate(resolve));
  }

  goOn(): void {
    for (const [from, to] of this.#joints) from.pipe(to, { end: from === process.stdin });
  }

  end(): void {
    this.cut();
  }
}

/** How a command ended; or, when a signal ends this process first, that signal. */
async function interruptible(
  exited: Promise<ExitInfo>,
  cut: () => void,
  gate: TerminalGate | undefined,
): Promise<ExitInfo> {
  let interrupted = (_signal: NodeJS.Signals) => {};
  const signalled = new Promise<ExitInfo>((resolve) => {
    interrupted = (signal) => {
      if (signal === 'SIGINT' && gate?.isHeld) return; // typed for a prompt, which answers it itself
      cut();
      resolve({ status: null, signal });
    };
  });
  const signals = [...ENDING_SIGNALS, 'SIGINT' as const];
  for (const signal of signals) process.on(signal, interrupted);
  try {
    const lost = gate?.lost.then(() => HUNG_UP);
    return await Promise.race([exited, signalled, ...(lost ? [lost] : [])]);
  } finally {
    for (const signal of signals) process.off(signal, interrupted);
  }
}

/** Stops reading what nobody takes any more; else it would keep this process alive. */
function letGoOfInput(): void {
  process.stdin.unpipe();
  process.stdin.destroy();
}

function notRun(program: string, error: NodeJS.ErrnoException): BridgeError {
  return new BridgeError('TARGET_NOT_FOUND', {
    what: `can't run ${program}`,
    why: error.code === 'ENOENT' ? 'it is not installed or not on the PATH' : error.message,
    fix: `Install ${program}, or put it on the PATH.`,
    cause: error,
  });
}
