import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';

/** What Node keeps of a socket; -1 where it has no descriptor, as on Windows. */
interface Insides {
  _handle?: { fd?: number } | null;
}

/** The descriptor that an output writes its bytes to as they are, or -1. */
export function descriptorOf(output: Writable): number {
  return isPlain(output) ? ((output as unknown as Insides)._handle?.fd ?? -1) : -1;
}

/** By what it does, not by its class, of which each bundle of the program has one. The descriptor of TLS is encrypted. */
function isPlain(output: Writable): boolean {
  return output instanceof Socket && output._write === Socket.prototype._write && !('encrypted' in output);
}

/** Writes to a descriptor in this very call; returns how many bytes the kernel took, 0 also if it can't be written to. */
export function writeTo(descriptor: number, bytes: Buffer): number {
  try {
    return writeSync(descriptor, bytes);
  } catch {
    return 0; // full, not connected, or nobody reads any more: the stream waits for the one, and tells of the other
  }
}
