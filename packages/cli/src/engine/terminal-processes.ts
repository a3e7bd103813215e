import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';

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

/** Whether this process or what it has started is in front in its terminal; true where that can't be seen. */
export async function isInFront(): Promise<boolean> {
  const own = fromProc(process.pid)[0];
  if (own && (own.front < 1 || own.front === own.group)) return true; // the others take longer to look at
  const all = await allProcesses().catch(() => []);
  const front = all.find(({ pid }) => pid === process.pid)?.front ?? 0;
  return front < 1 || readersBelow(process.pid, all).some(({ group }) => group === front);
}

/** A process and all below it that have its terminal, each behind the one that has started it. */
export function readersBelow(root: number, all: readonly ProcessInfo[]): ProcessInfo[] {
  const first = all.find(({ pid }) => pid === root);
  if (!first) return [];
  const found = [first];
  // An agent that was started there has left the terminal, and has to go on.
  const mayRead = ({ terminal }: ProcessInfo) => terminal === first.terminal && !NO_TERMINAL.test(terminal);
  for (const parent of found) found.push(...all.filter((one) => one.parent === parent.pid && mayRead(one)));
  return found;
}

/** Whether every thread has stopped, or ended; where that can't be seen it is taken for granted. */
export function hasStopped(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).every((thread) => {
      const [state = 'X'] = statFields(`/proc/${pid}/task/${thread}/stat`);
      return STOPPED.test(state) || GONE.test(state);
    });
  } catch {
    return true;
  }
}

export async function allProcesses(): Promise<ProcessInfo[]> {
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
