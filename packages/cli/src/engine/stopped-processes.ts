import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { TerminalReader } from './terminal-gate.ts';

/** A process as far as it matters here. */
interface ProcessInfo {
  pid: number;
  parent: number;
  /** Its controlling terminal, in the system's own words. */
  terminal: string;
  isStopped: boolean;
  group: number;
  /** The group that is in front in its terminal; below 1 if none is. */
  front: number;
}

const NO_TERMINAL = /^(?:0|\?*|-)$/;
const STOPPED = /^[Tt]/;
const GONE = /^[ZX]/;
/** A process stops as soon as it has a processor. */
const STOPS_WITHIN_MS = 500;

/**
 * A program that reads the terminal itself, with all that it has started there. It can't be told to stop reading, so
 * its processes are stopped; those that are stopped already, as a shell's jobs are, stay so.
 */
export class StoppedProcesses implements TerminalReader {
  readonly #root: number;
  #stopped = new Set<number>();
  /** Those that were stopped already, too. */
  readonly #readers = new Set<number>();

  constructor(root: number) {
    this.#root = root;
  }

  async stop(): Promise<void> {
    const seen = new Set<number>();
    // Something may have had them go on. To look for them takes longer than to read a key.
    for (const pid of this.#stopped) signal(pid, 'SIGSTOP');
    // One that was just started by another, before that was stopped, shows the next time.
    for (;;) {
      const found = readersBelow(this.#root, await allProcesses()).filter(({ pid }) => !seen.has(pid));
      if (found.length === 0) break;
      for (const { pid, isStopped } of found) {
        seen.add(pid);
        this.#readers.add(pid);
        if (isStopped || !signal(pid, 'SIGSTOP')) continue;
        this.#stopped.add(pid);
        // A shell that still runs would see that what it has started is stopped, and take it for a job of its own.
        await untilStopped(pid);
      }
    }
  }

  /** What a shell has started goes on before the shell looks at it: it does not take it for stopped. */
  goOn(): void {
    for (const pid of [...this.#stopped].reverse()) signal(pid, 'SIGCONT');
    this.#stopped.clear();
    this.#readers.clear();
  }

  /** SIGHUP would have to wait until they go on, and read. */
  end(): void {
    for (const pid of this.#readers) signal(pid, 'SIGKILL');
  }
}

/** Whether this process or what it has started is in front in its terminal; true where that can't be seen. */
export async function isInFront(): Promise<boolean> {
  const own = fromProc(process.pid)[0];
  if (own && (own.front < 1 || own.front === own.group)) return true; // the others take longer to look at
  const all = await allProcesses().catch(() => []);
  const front = all.find(({ pid }) => pid === process.pid)?.front ?? 0;
  return front < 1 || readersBelow(process.pid, all).some(({ group }) => group === front);
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // it has ended, or is another user's
  }
}

/** A process and all below it that have its terminal, each behind the one that has started it. */
function readersBelow(root: number, all: readonly ProcessInfo[]): ProcessInfo[] {
  const first = all.find(({ pid }) => pid === root);
  if (!first) return [];
  const found = [first];
  // An agent that was started there has left the terminal, and has to go on.
  const mayRead = ({ terminal }: ProcessInfo) => terminal === first.terminal && !NO_TERMINAL.test(terminal);
  for (const parent of found) found.push(...all.filter((one) => one.parent === parent.pid && mayRead(one)));
  return found;
}

async function allProcesses(): Promise<ProcessInfo[]> {
  if (existsSync('/proc/self/stat')) {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? fromProc(Number(name)) : []));
  }
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid=,tpgid=,stat=,tty=']);
  return stdout.split('\n').flatMap((line) => {
    const [pid, parent, group, front, state = '', terminal = ''] = line.trim().split(/\s+/);
    if (!pid) return [];
    const isStopped = STOPPED.test(state);
    const ids = { pid: Number(pid), parent: Number(parent), group: Number(group), front: Number(front) };
    return [{ ...ids, terminal, isStopped }];
  });
}

function fromProc(pid: number): ProcessInfo[] {
  const [state, parent, group, , terminal = '', front] = statFields(`/proc/${pid}/stat`);
  if (!state || GONE.test(state)) return [];
  const isStopped = STOPPED.test(state);
  return [{ pid, parent: Number(parent), group: Number(group), front: Number(front), terminal, isStopped }];
}

/** What Linux says of a process or thread behind its name, which may have spaces and parentheses in it. */
function statFields(path: string): string[] {
  try {
    return readFileSync(path, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
  } catch {
    return []; // it has ended
  }
}

async function untilStopped(pid: number): Promise<void> {
  const end = performance.now() + STOPS_WITHIN_MS;
  while (!hasStopped(pid) && performance.now() < end) await delay(1);
}

/** Whether every thread has stopped, or ended; where that can't be seen it is taken for granted. */
function hasStopped(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).every((thread) => {
      const [state = 'X'] = statFields(`/proc/${pid}/task/${thread}/stat`);
      return STOPPED.test(state) || GONE.test(state);
    });
  } catch {
    return true;
  }
}
