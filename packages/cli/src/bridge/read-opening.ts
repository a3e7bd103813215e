import type { Readable } from 'node:stream';

/** What a stream tells of itself to whoever reads it. */
const NEWS = ['readable', 'end', 'close'] as const;

/**
 * Waits until `parse` finds something in what a target has printed so far; what is left of that then stays to be read.
 * A Buffer is all that was printed by a target that ended before.
 */
export async function readOpening<Found extends { rest: Buffer }>(
  stdout: Readable,
  parse: (printed: Buffer) => Found | undefined,
  signal: AbortSignal,
): Promise<Found | Buffer> {
  let printed = Buffer.alloc(0);
  for (;;) {
    const chunk: Buffer | null = stdout.read();
    if (chunk === null) {
      if (stdout.readableEnded || stdout.destroyed) return printed;
      await news(stdout, signal);
      continue;
    }
    printed = Buffer.concat([printed, chunk]);
    const found = parse(printed);
    if (!found) continue;
    if (found.rest.length > 0) stdout.unshift(found.rest);
    return found;
  }
}

/** Resolves when there is something to read or nothing will be; rejects when the signal comes first. */
function news(stdout: Readable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const heard = () => settle(resolve);
    const aborted = () => settle(() => reject(signal.reason));
    const settle = (outcome: () => void) => {
      for (const event of NEWS) stdout.off(event, heard);
      signal.removeEventListener('abort', aborted);
      outcome();
    };
    for (const event of NEWS) stdout.on(event, heard);
    signal.addEventListener('abort', aborted);
    if (signal.aborted) aborted();
  });
}
