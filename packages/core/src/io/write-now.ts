import { writevSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { descriptorOf, writeTo } from './descriptor.ts';

/** Called, later, when the stream has written what it was left. */
type Written = (error?: Error | null) => void;

/**
 * Writes bytes that are the caller's again afterwards. A socket that has nothing unsent is written to in
 * this very call, past Node's stream: a large stream takes a seventh less time so; what the kernel does not take,
 * or an output without a descriptor, goes through the stream, as a copy. True: the kernel has it all, and
 * `written` is not called.
 */
export function writeNow(output: Writable, bytes: Buffer, written?: Written): boolean {
  const taken = writeDirectly(output, bytes);
  if (taken === bytes.length) return true;
  output.write(Buffer.from(taken === 0 ? bytes : bytes.subarray(taken)), written);
  return false;
}

/** The same for two pieces that leave together. */
export function writeBothNow(output: Writable, first: Buffer, second: Buffer, written?: Written): boolean {
  const descriptor = freeDescriptor(output);
  let taken = 0;
  if (descriptor >= 0) {
    try {
      taken = writevSync(descriptor, [first, second]);
    } catch {
      // As in `writeTo`.
    }
    if (taken === first.length + second.length) return true;
  }
  output.write(Buffer.concat([first, second]).subarray(taken), written);
  return false;
}

function writeDirectly(output: Writable, bytes: Buffer): number {
  const descriptor = freeDescriptor(output);
  return descriptor < 0 ? 0 : writeTo(descriptor, bytes);
}

/** The descriptor of an output that may be written to directly, or -1. */
function freeDescriptor(output: Writable): number {
  if (output.writableLength > 0 || !output.writable || (output as Socket).connecting) return -1;
  return descriptorOf(output);
}
