import { writeSync } from 'node:fs';
import type { Socket } from 'node:net';

/** What Node keeps of a socket; -1 where it has no descriptor, as on Windows. */
interface Insides {
  _handle?: { fd?: number } | null;
  /** Of a TLS socket, whose descriptor is the encrypted one's. */
  encrypted?: boolean;
}

/**
 * Writes the first bytes to a local socket that `connect` was just called for. The kernel has connected it by then, or
 * never will; Node says so only when it has come round to it, and whoever listens could have answered meanwhile.
 * Returns how many bytes were taken; the rest is for when it is connected.
 */
export function writeFirst(socket: Socket, bytes: Buffer): number {
  const { _handle, encrypted } = socket as unknown as Insides;
  const descriptor = encrypted ? -1 : (_handle?.fd ?? -1);
  if (descriptor < 0) return 0;
  try {
    return writeSync(descriptor, bytes);
  } catch {
    return 0; // not connected yet, or nobody listens, which the socket tells
  }
}
