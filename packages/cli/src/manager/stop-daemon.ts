import { existsSync, rmSync } from 'node:fs';
import { removeIfDead } from '../daemon/claim.ts';
import { askDaemon } from '../daemon/control.ts';
import { takeDeadBridges } from '../daemon/dead-bridges.ts';
import type { BridgeFiles } from '../daemon/state-dir.ts';
import { stopChange } from './change-lock.ts';

/**
 * What became of a bridge: it was ended, it had been killed and what it left was cleared, there was none, or none yet and
 * another process is at it, which was told to give up and has not.
 */
export type StopResult = 'ended' | 'cleared' | 'none' | 'busy';

/** More than the three seconds that a daemon gives its target to remove the sockets. */
const STOP_TIMEOUT_MS = 15_000;
/** How long a process that starts or changes a bridge is waited for. */
const CHANGE_TIMEOUT_MS = 10_000;

/**
 * Ends a bridge for a person. Where another process is starting or changing it just now, that one is told to give up and
 * waited for first: an `up` that begins while the bridge ends is a later word than this one.
 */
export async function endBridge(files: BridgeFiles): Promise<StopResult> {
  const change = existsSync(files.lock) ? await stopChange(files.lock, CHANGE_TIMEOUT_MS) : 'none';
  const status = await askDaemon(files.control, 'stop', STOP_TIMEOUT_MS);
  // One that has a successor already is not the last one.
  if (status?.succeeded) await askDaemon(files.control, 'stop', STOP_TIMEOUT_MS);
  if (status) return 'ended';
  const left = await clearLeft(files);
  return left === 'none' ? change : left;
}

/** Asks a daemon to end and waits for it; if nobody answers, what it may have left is cleared. */
export async function stopDaemon(files: BridgeFiles): Promise<StopResult> {
  return (await askDaemon(files.control, 'stop', STOP_TIMEOUT_MS)) ? 'ended' : clearLeft(files);
}

async function clearLeft(files: BridgeFiles): Promise<StopResult> {
  const isLeft = existsSync(files.pid) || existsSync(files.control);
  await removeIfDead(files.lock);
  // Another process may be starting this bridge just now, and holds the control socket then.
  if (!(await removeIfDead(files.control)) && existsSync(files.control)) return 'none';
  removeLeftovers(files);
  return isLeft ? 'cleared' : 'none';
}

/** Ends a bridge as `endBridge` does, but one that does not answer is killed if its process is proven to be this bridge's. */
export async function forceDaemon(files: BridgeFiles): Promise<StopResult> {
  try {
    return await endBridge(files);
  } catch (error) {
    const { killDaemon } = await import('../daemon/daemon-process.ts');
    if (!(await killDaemon(files))) throw error;
    await removeIfDead(files.control);
    removeLeftovers(files);
    return 'ended';
  }
}

/** Clears what daemons left that were killed, as far as their targets are the ones that are meant. */
export async function clearDead(
  directory: string,
  isMeant: (target: string) => boolean,
): Promise<StopResult> {
  const dead = await takeDeadBridges(directory, isMeant);
  for (const files of dead) {
    await removeIfDead(files.lock);
    removeLeftovers(files);
  }
  return dead.length > 0 ? 'cleared' : 'none';
}

/** Removes the PID file of a daemon that was killed. No process is signalled: the PID may be another's by now. */
export function removeLeftovers(files: BridgeFiles): void {
  rmSync(files.pid, { force: true });
}
