import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_MESSAGE, SshMessage, SshMessageReader } from './messages.ts';

describe('ssh-agent messages', () => {
  it('come out whole and in order whatever the chunks', () => {
    const message = fc
      .tuple(fc.integer({ min: 0, max: 255 }), fc.uint8Array({ maxLength: 300 }))
      .map(([type, contents]) => SshMessage.of(type, Buffer.from(contents)));
    fc.assert(
      fc.property(
        fc.array(message),
        fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1 }),
        (all, sizes) => {
          const bytes = Buffer.concat(all.map((one) => one.bytes));
          const reader = new SshMessageReader('client');
          const seen: SshMessage[] = [];
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            const size = sizes[turn % sizes.length]!;
            reader.push(bytes.subarray(at, at + size), (one) => seen.push(one));
            at += size;
          }
          expect(seen.map((one) => one.bytes)).toEqual(all.map((one) => one.bytes));
        },
      ),
    );
  });

  it('have their type and contents where the protocol says', () => {
    let message: SshMessage | undefined;
    new SshMessageReader('client').push(Buffer.from('000000040d616263', 'hex'), (one) => {
      message = one;
    });
    expect(message!.type).toBe(13);
    expect(message!.contents.toString()).toBe('abc');
    expect(SshMessage.of(13, Buffer.from('abc')).bytes).toEqual(message!.bytes);
  });

  it('may be 256 KiB long', () => {
    const largest = SshMessage.of(13, Buffer.alloc(MAX_MESSAGE - 1));
    const seen: SshMessage[] = [];
    new SshMessageReader('client').push(largest.bytes, (one) => seen.push(one));
    expect(seen).toHaveLength(1);
  });

  it('are told before the next one is read: a client may send ten thousand at once', () => {
    const request = SshMessage.of(19, Buffer.alloc(0)).bytes;
    const seen: number[] = [];
    const push = () =>
      new SshMessageReader('client').push(Buffer.concat([request, request, Buffer.alloc(4)]), ({ type }) =>
        seen.push(type),
      );
    expect(push).toThrow(expect.objectContaining({ code: 'SSH_PROTOCOL' }));
    expect(seen).toEqual([19, 19]);
  });

  it.each([0, MAX_MESSAGE + 1, 0xffffffff])('of length %i are refused at the fourth byte', (length) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(length);
    const refusal = expect.objectContaining({ code: 'SSH_PROTOCOL' });
    expect(() => new SshMessageReader('client').push(bytes, () => {})).toThrow(refusal);
    const slow = new SshMessageReader('agent');
    slow.push(bytes.subarray(0, 3), () => {});
    expect(() => slow.push(bytes.subarray(3), () => {})).toThrow(refusal);
  });
});
