import type net from 'node:net';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import { type Claim, claim, untilReleased } from '../daemon/claim.ts';

/** What `down` says to a process that starts or changes a bridge. */
const STOP = 'stop\n';

/** Keeps other processes from starting or changing a bridge until it is released. */
export interface BridgeLock extends Pick<Claim, 'release'> {
  /** Somebody ended the bridge meanwhile, and does not want what would come of this either. */
  stopped: AbortSignal;
}

/** Waits until no other process is starting or changing this bridge, and keeps others from it until released. */
export async function lockBridge(path: string): Promise<BridgeLock> {
  const stopped = new AbortController();
  for (;;) {
    const held = await claim(path, (socket) => listen(socket, () => stopped.abort()));
    if (held) return { release: () => held.release(), stopped: stopped.signal };
    await untilReleased(path);
  }
}

/** What became of a start or a change: it was given up, it was not yet, or there was none. */
export type StopChangeResult = 'ended' | 'busy' | 'none';

/**
 * Tells the process that starts or changes a bridge to give up, and waits for that, but not for ever: one that a person has
 * stopped may never go on. It still hears it when it does.
 */
export async function stopChange(path: string, timeoutMs: number): Promise<StopChangeResult> {
  const socket = connectLocal(path);
  return new Promise((resolve) => {
    let result: StopChangeResult = 'none';
    const late = setTimeout(() => {
      result = 'busy';
      socket.destroy();
    }, timeoutMs);
    socket.on('connect', () => {
      result = 'ended';
      socket.write(STOP);
    });
    socket.on('error', () => {}); // it has gone already
    socket.on('close', () => {
      clearTimeout(late);
      resolve(result);
    });
    socket.resume();
  });
}

/** Hears whether a connection to the lock says more than that somebody waits. */
function listen(socket: net.Socket, stop: () => void): void {
  let heard = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    heard = (heard + text).slice(0, STOP.length);
    if (heard === STOP) stop();
  });
}
