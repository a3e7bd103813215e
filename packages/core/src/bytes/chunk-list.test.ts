import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ByteReader, ChunkList } from './chunk-list.ts';

const LF = 0x0a;

/** Remembers every byte it was shown, and stops behind each LF. */
class RecordingReader implements ByteReader {
  readonly shown: number[] = [];

  read(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      this.shown.push(chunk[at]!);
      if (chunk[at] === LF) return at + 1;
    }
    return -1;
  }
}

describe('ChunkList', () => {
  it('gives back a chunk that is taken whole, and views of one that is not', () => {
    const list = new ChunkList();
    const whole = Buffer.from('one');
    const parts = Buffer.from('twothree');
    list.push(whole);
    list.push(parts);
    expect(list.take(3)).toBe(whole);
    const two = list.take(3);
    expect(two.toString()).toBe('two');
    expect(two.buffer).toBe(parts.buffer);
    expect(list.length).toBe(5);
    expect(list.take(5).toString()).toBe('three');
    expect(list.length).toBe(0);
  });

  it('joins what lies in several chunks, and leaves the rest', () => {
    const list = new ChunkList();
    for (const part of ['ab', 'cd', 'ef']) list.push(Buffer.from(part));
    expect(list.take(1).toString()).toBe('a');
    expect(list.take(4).toString()).toBe('bcde');
    expect(list.take(0).length).toBe(0);
    expect(list.take(1).toString()).toBe('f');
  });

  it('takes no more than it has', () => {
    const list = new ChunkList();
    list.push(Buffer.from('ab'));
    expect(() => list.take(3)).toThrow(RangeError);
    expect(() => list.take(-1)).toThrow(RangeError);
    expect(list.take(2).toString()).toBe('ab');
  });

  it('goes on reading where it stopped', () => {
    const list = new ChunkList();
    const reader = new RecordingReader();
    list.push(Buffer.from('ab'));
    expect(list.scan(reader)).toBe(false);
    expect(list.scan(reader)).toBe(false);
    list.push(Buffer.from('c\nd'));
    expect(list.scan(reader)).toBe(true);
    expect(list.scanned).toBe(4);
    expect(list.scan(reader)).toBe(false);
    expect(Buffer.from(reader.shown).toString()).toBe('abc\nd');
  });

  it('reads from the front again once it was cleared', () => {
    const list = new ChunkList();
    list.push(Buffer.from('abc'));
    list.scan(new RecordingReader());
    list.clear();
    expect([list.length, list.scanned]).toEqual([0, 0]);
    const reader = new RecordingReader();
    list.push(Buffer.from('x\n'));
    expect(list.scan(reader)).toBe(true);
    expect(list.take(2).toString()).toBe('x\n');
  });

  it('copies the bytes of many small chunks, so that those need not stay', () => {
    const list = new ChunkList();
    const chunk = Buffer.from('0123456789abcdef');
    for (let i = 0; i < 100; i++) list.push(Buffer.from(chunk));
    const small = Buffer.from('last');
    list.push(small);
    small.fill('x'); // only a copy could survive this
    expect(list.take(1604).subarray(1600).toString()).toBe('last');
  });

  it('keeps its places while many chunks are taken one after another', () => {
    const list = new ChunkList();
    const reader = new RecordingReader();
    const chunk = (byte: number) => Buffer.concat([Buffer.alloc(2999, byte), Buffer.of(LF)]);
    for (let i = 0; i < 100; i++) list.push(chunk(i + 100));
    for (let i = 0; i < 90; i++) {
      expect(list.scan(reader)).toBe(true);
      expect(list.take(list.scanned).equals(chunk(i + 100))).toBe(true);
    }
    list.push(chunk(99));
    for (let i = 0; i < 11; i++) expect(list.scan(reader)).toBe(true);
    expect(list.take(3001).at(-1)).toBe(191);
    expect(list.scanned).toBe(11 * 3000 - 3001);
    expect(list.take(list.length).subarray(-3000).equals(chunk(99))).toBe(true);
    expect(reader.shown).toHaveLength(101 * 3000);
  });

  const step = fc.oneof(
    fc.record({ do: fc.constant('push' as const), bytes: fc.uint8Array({ maxLength: 30 }) }),
    fc.record({ do: fc.constant('push' as const), bytes: fc.constant(new Uint8Array(3000).fill(7)) }),
    fc.record({ do: fc.constant('flood' as const), count: fc.nat(100), byte: fc.nat(255) }),
    fc.record({ do: fc.constant('scan' as const) }),
    fc.record({ do: fc.constant('take' as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  );

  it('is a queue of bytes that shows each of them once, in order, whatever is done with it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const list = new ChunkList();
        const reader = new RecordingReader();
        let held = Buffer.alloc(0);
        const expectedShown: number[] = [];
        let scanned = 0;
        const push = (bytes: Uint8Array) => {
          list.push(Buffer.from(bytes));
          held = Buffer.concat([held, bytes]);
        };
        for (const action of steps) {
          if (action.do === 'push') push(action.bytes);
          else if (action.do === 'flood')
            for (let i = 0; i < action.count; i++) push(Uint8Array.of(action.byte, i));
          else if (action.do === 'scan') {
            const lf = held.indexOf(LF, scanned);
            const end = lf < 0 ? held.length : lf + 1;
            expectedShown.push(...held.subarray(scanned, end));
            scanned = end;
            expect(list.scan(reader)).toBe(lf >= 0);
          } else {
            const size = Math.floor(action.share * held.length);
            expect(list.take(size).equals(held.subarray(0, size))).toBe(true);
            held = held.subarray(size);
            scanned = Math.max(0, scanned - size);
          }
          expect(list.length).toBe(held.length);
          expect(list.scanned).toBe(scanned);
        }
        expect(reader.shown).toEqual(expectedShown);
        expect(list.take(held.length).equals(held)).toBe(true);
      }),
    );
  });
});
