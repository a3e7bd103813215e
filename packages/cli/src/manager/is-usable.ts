import { connect } from 'node:net';
import { type BridgeOptions, mergedOptions, optionChanges } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';

/** Whether a daemon's bridge is not about to end, is what is wanted, and lacks no agent that could be had. */
export async function isUsable(running: DaemonStatus, given: BridgeOptions): Promise<boolean> {
  if (running.state === 'ending') return false;
  const wanted = mergedOptions(running.options, given);
  return optionChanges(running.options, wanted).length === 0 && !(await couldHaveSsh(running, wanted));
}

/** The same of a bridge that is attached to its target: `up` has nothing to do for it. */
export async function isAsWanted(running: DaemonStatus, given: BridgeOptions): Promise<boolean> {
  return isUp(running) && isUsable(running, given);
}

/** Whether a daemon's bridge is attached to its target. */
export function isUp({ state }: DaemonStatus): boolean {
  return state === 'ready' || state === 'broken';
}

/** Whether the ssh-agent that a bridge did not find when it attached is there by now. */
async function couldHaveSsh(running: DaemonStatus, { sshAuthSock }: BridgeOptions): Promise<boolean> {
  if (!isUp(running) || !running.missing.includes('ssh-agent') || sshAuthSock === undefined) return false;
  return isListening(sshAuthSock);
}

/** Whether anybody listens at a socket. */
export function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path }, () => settle(true)); // a bare number would be a TCP port
    socket.on('error', () => settle(false));
    const settle = (listens: boolean) => {
      socket.destroy();
      resolve(listens);
    };
  });
}
