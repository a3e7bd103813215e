import { Writable } from 'node:stream';
import { readExactly, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import { FRAME, HEADER_BYTES, MAX_PAYLOAD } from './frame.ts';
import { Outbox } from './outbox.ts';

const owner = (crowded: boolean) => ({ crowded, onRoom: () => {} });

describe('the way out', () => {
  it.each([true, false])(
    'keeps no payload: its memory may be used again at once (crowded: %s)',
    async (crowded) => {
      const [near, far] = await socketPair();
      const outbox = new Outbox(near, owner(crowded));
      const sizes = [1, 4_096, 4_097, 65_536, 12, 1_048_000, 3];
      const memory = Buffer.alloc(1_048_576);
      for (const [index, size] of sizes.entries()) {
        memory.fill(index + 1);
        outbox.add(FRAME.DATA, index, memory.subarray(0, size));
      }
      memory.fill(0);
      for (const [index, size] of sizes.entries()) {
        const frame = await readExactly(far, HEADER_BYTES + size);
        expect(frame.readUInt32BE(0)).toBe(5 + size);
        expect(frame.readUInt32BE(5)).toBe(index);
        expect(frame.subarray(HEADER_BYTES).every((byte) => byte === index + 1)).toBe(true);
      }
    },
  );

  it('joins the frames of many streams, and sends that of a lone one at once', async () => {
    const [near, far] = await socketPair();
    const many = new Outbox(near, owner(true));
    for (let stream = 1; stream <= 3; stream++) many.add(FRAME.CLOSE, stream);
    expect(many.buffered).toBe(3 * HEADER_BYTES);
    const chunk = await new Promise<Buffer>((resolve) => far.once('data', resolve));
    expect(chunk.length).toBe(3 * HEADER_BYTES);
    const lone = new Outbox(near, owner(false));
    lone.add(FRAME.CLOSE, 4);
    expect(lone.buffered).toBe(0);
  });

  it('joins the frames of a lone one, too, as long as the carrier has not taken those before', async () => {
    const writes: number[] = [];
    const carrier = new Writable({ write: ({ length }) => void writes.push(length), writev: () => {} });
    const outbox = new Outbox(carrier, owner(false));
    for (let frames = 0; frames < 10_000; frames++) outbox.add(FRAME.PONG, 0);
    await new Promise(setImmediate);
    expect(writes).toEqual([HEADER_BYTES]);
    expect(outbox.buffered).toBe(10_000 * HEADER_BYTES);
    expect((carrier as unknown as { writableBuffer: unknown[] }).writableBuffer.length).toBeLessThan(10);
  });

  it('refuses a payload that no frame can hold', async () => {
    const [near] = await socketPair();
    const outbox = new Outbox(near, owner(false));
    expect(() => outbox.add(FRAME.DATA, 1, Buffer.alloc(MAX_PAYLOAD + 1))).toThrow(RangeError);
    expect(outbox.buffered).toBe(0);
  });
});
