import type { Socket } from 'node:net';
import { descriptorOf, writeTo } from './descriptor.ts';

/**
 * Writes the first bytes to a local socket that `connect` was just called for. The kernel has connected it by then, or
 * never will; Node says so only when it has come round to it, and whoever listens could have answered meanwhile.
 * Returns how many bytes were taken; the rest is for when it is connected.
 */
export function writeFirst(socket: Socket, bytes: Buffer): number {
  const descriptor = descriptorOf(socket);
  return descriptor < 0 ? 0 : writeTo(descriptor, bytes);
}
