import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { BridgeSelector } from '../bridge-options.ts';
import { readPid } from './pid-file.ts';
import type { BridgeFiles } from './state-dir.ts';

/** What shows of a daemon without asking it. */
export interface KnownProcess {
  pid: number;
  /** The target that it was started for. */
  target: string;
  selector: BridgeSelector;
}

const PID_FILE = '--pid-file=';

/** The process of a bridge's daemon; undefined if the PID in its file is another program's by now. */
export function knownProcess(files: BridgeFiles): KnownProcess | undefined {
  const pid = readPid(files.pid);
  const words = pid === undefined ? [] : commandLine(pid);
  if (pid === undefined || !isDaemon(pid, words, files)) return undefined;
  const option = (name: string) =>
    words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + '--='.length);
  const [user, exec] = [option('user'), option('exec')];
  return {
    pid,
    target: option('target') ?? option('container') ?? exec ?? '',
    selector: { ...(user === undefined ? {} : { user }), ...(exec === undefined ? {} : { exec }) },
  };
}

/** Whether a process is the daemon of these files. */
function isDaemon(pid: number, words: readonly string[], files: BridgeFiles): boolean {
  const named = words.find((word) => word.startsWith(PID_FILE))?.slice(PID_FILE.length);
  if (named === undefined || named === files.pid) return named !== undefined;
  // One that has followed its target's name has taken these files and left the ones that it was started with.
  return dirname(named) === dirname(files.pid) && readPid(named) !== pid;
}

/** The words that a process was started with; none if it can't be seen. */
function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    // Not Linux: ps joins the words with blanks, and these have none of their own where it matters.
  }
  try {
    const printed = execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8' });
    return printed.trim().split(' ');
  } catch {
    return [];
  }
}
