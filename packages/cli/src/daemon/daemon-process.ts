import { untilReleased } from './claim.ts';
import type { DaemonStatus } from './control.ts';
import { knownProcess } from './known-process.ts';
import type { BridgeFiles } from './state-dir.ts';

/** What is known of a daemon that does not answer; undefined if the PID in its file is another program's by now. */
export function notAnswering(files: BridgeFiles, why: string): DaemonStatus | undefined {
  const known = knownProcess(files);
  if (!known) return undefined;
  const { pid, target, selector } = known;
  return {
    key: '',
    target,
    user: selector.user ?? '',
    id: '',
    pid,
    started: '',
    uptimeSeconds: 0,
    state: 'not-answering',
    stateSeconds: 0,
    followsName: false,
    problems: [`its process does not answer: ${why}`],
    working: [],
    failures: [],
    mended: [],
    nextAttempt: null,
    endsAt: null,
    paused: null,
    offers: { gpg: null, ssh: null },
    leftOut: [],
    runtime: '',
    sockets: [],
    warnings: [],
    notes: [],
    options: selector,
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
  const daemon = knownProcess(files);
  if (!daemon) return false;
  const released = untilReleased(files.control);
  process.kill(daemon.pid, 'SIGKILL');
  await released;
  return true;
}
