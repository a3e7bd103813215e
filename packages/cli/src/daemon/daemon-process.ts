import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { untilReleased } from './claim.ts';
import type { DaemonStatus } from './control.ts';
import { readPid } from './pid-file.ts';
import type { BridgeFiles } from './state-dir.ts';

const PID_FILE = '--pid-file=';

/** What is known of a daemon that does not answer; undefined if the PID in its file is another program's by now. */
export function notAnswering(files: BridgeFiles, why: string): DaemonStatus | undefined {
  const daemon = daemonProcess(files);
  if (!daemon) return undefined;
  const { pid, words } = daemon;
  const option = (name: string) =>
    words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + '--='.length);
  const target = option('target') ?? option('container') ?? option('exec') ?? '';
  const user = option('user') ?? '';
  return {
    key: '',
    target,
    user,
    id: '',
    pid,
    started: '',
    uptimeSeconds: 0,
    state: 'not-answering',
    stateSeconds: 0,
    followsName: false,
    problems: [`its process does not answer: ${why}`],
    mended: [],
    nextAttempt: null,
    endsAt: null,
    paused: null,
    offers: { gpg: null, ssh: null },
    runtime: '',
    sockets: [],
    warnings: [],
    notes: [],
    options: { ...(user ? { user } : {}) },
    missing: [],
    sessions: { open: 0, total: 0 },
    bytes: { toHost: 0, toTarget: 0 },
    waiting: null,
    lastOperation: null,
    lastError: null,
  };
}

/**
 * Kills a daemon that does not answer, and waits until it is gone. False if none can be proven: its words have to name
 * this very PID file, which no two daemons have, or one that it has left since then, and it has to hold the control
 * socket still.
 */
export async function killDaemon(files: BridgeFiles): Promise<boolean> {
  const daemon = daemonProcess(files);
  if (!daemon) return false;
  const released = untilReleased(files.control);
  process.kill(daemon.pid, 'SIGKILL');
  await released;
  return true;
}

/** The process of a bridge's daemon, and the words that it was started with. */
function daemonProcess(files: BridgeFiles): { pid: number; words: string[] } | undefined {
  const pid = readPid(files.pid);
  const words = pid === undefined ? [] : commandLine(pid);
  return pid !== undefined && isDaemon(pid, words, files) ? { pid, words } : undefined;
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
