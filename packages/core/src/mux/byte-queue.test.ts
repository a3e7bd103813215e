import { liveBytes } from '@gpg-bridge/test-support/memory';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteQueue } from './byte-queue.ts';

describe('a byte queue', () => {
  it('gives back the bytes it got, in order, whatever the sizes', () => {
    const step = fc.oneof(
      fc.record({ push: fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 40_000 })) }),
      fc.record({
        take: fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.constant(Number.POSITIVE_INFINITY)),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const queue = new ByteQueue();
        let model = Buffer.alloc(0);
        let next = 0;
        for (const one of steps) {
          if ('push' in one) {
            const piece = Buffer.from(Uint8Array.from({ length: one.push }, () => next++ % 251));
            queue.push(piece);
            model = Buffer.concat([model, piece]);
          } else {
            const taken = queue.take(one.take);
            expect(taken === undefined).toBe(model.length === 0);
            if (!taken) continue;
            expect(taken.length).toBeLessThanOrEqual(one.take);
            expect(taken.equals(model.subarray(0, taken.length))).toBe(true);
            model = model.subarray(taken.length);
          }
          expect(queue.length).toBe(model.length);
        }
        let rest = Buffer.alloc(0);
        for (let piece = queue.take(); piece; piece = queue.take()) rest = Buffer.concat([rest, piece]);
        expect(rest.equals(model)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('does not keep the chunks its small pieces were part of', () => {
    const queue = new ByteQueue();
    const before = liveBytes();
    for (let turn = 0; turn < 2_000; turn += 1) queue.push(Buffer.alloc(65_536, turn).subarray(100, 110));
    expect(queue.length).toBe(20_000);
    expect(liveBytes() - before).toBeLessThan(2_000_000); // the chunks are 131 MB
    expect(queue.take(1)).toEqual(Buffer.of(0));
  });

  it('keeps bytes as they were when they came, whatever becomes of the memory they came in', () => {
    const queue = new ByteQueue();
    const memory = Buffer.alloc(65_536, 1);
    queue.push(memory);
    memory.fill(2);
    queue.push(memory.subarray(0, 10));
    memory.fill(3);
    const pieces: Buffer[] = [];
    for (let piece = queue.take(); piece; piece = queue.take()) pieces.push(piece);
    expect(Buffer.concat(pieces)).toEqual(Buffer.concat([Buffer.alloc(65_536, 1), Buffer.alloc(10, 2)]));
  });
});
