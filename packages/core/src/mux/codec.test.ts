import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameDecoder } from './codec.ts';
import { FRAME, HEADER_BYTES, MAX_PAYLOAD, writeHeader } from './frame.ts';

/** Frames written down byte by byte from the protocol's table. */
const GOLDEN: [name: string, hex: string, type: number, stream: number, payload: string][] = [
  ['DATA', '00000008 01 00000001 68690a', 1, 1, 'hi\n'],
  ['DATA without bytes', '00000005 01 00000007', 1, 7, ''],
  ['OPEN gpg-agent', '0000000e 02 00000001 6770672d6167656e74', 2, 1, 'gpg-agent'],
  ['OPEN ssh-agent', '0000000e 02 00000102 7373682d6167656e74', 2, 258, 'ssh-agent'],
  ['CLOSE', '00000005 03 ffffffff', 3, 4294967295, ''],
  ['PUBKEY', '00000006 04 00000000 4b', 4, 0, 'K'],
  ['READY', '00000007 05 00000000 7b7d', 5, 0, '{}'],
  ['ERROR', '00000007 06 00000000 c3a9', 6, 0, 'é'],
  ['WINDOW', '00000009 07 00000003 00020000', 7, 3, '\0\x02\0\0'],
  ['EOF', '00000005 08 00000004', 8, 4, ''],
  ['CALL', '0000000e 0b 00000009 00000005 77686f3f21', 11, 9, '\0\0\0\x05who?!'],
  ['RESULT', '0000000b 0c 00000009 00000002 6f6b', 12, 9, '\0\0\0\x02ok'],
  ['CHANGED', '0000000e 0d 00000000 7373682d6167656e74', 13, 0, 'ssh-agent'],
  ['a type nobody knows', '00000006 c8 00000000 2a', 200, 0, '*'],
];

function encodeFrame(type: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  writeHeader(header, 0, type, stream, payload.length);
  return Buffer.concat([header, payload]);
}

interface Seen {
  type: number;
  stream: number;
  payload: Buffer;
}

/** Decodes chunks, with the pieces of each DATA frame put together again. */
function decode(chunks: Iterable<Buffer>, wanted: (type: number) => boolean = () => true): Seen[] {
  const seen: Seen[] = [];
  const decoder = new FrameDecoder({
    header(type, stream) {
      if (type === FRAME.DATA && wanted(type)) seen.push({ type, stream, payload: Buffer.alloc(0) });
      return wanted(type);
    },
    data(piece) {
      const frame = seen.at(-1)!;
      frame.payload = Buffer.concat([frame.payload, piece]);
    },
    frame: (type, stream, payload) => seen.push({ type, stream, payload }),
  });
  for (const chunk of chunks) decoder.push(chunk);
  return seen;
}

function* cut(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length]!;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

describe('frames', () => {
  it.each(GOLDEN)('%s is encoded byte for byte', (_name, bytes, type, stream, payload) => {
    expect(encodeFrame(type, stream, Buffer.from(payload))).toEqual(hex(bytes));
  });

  it.each(GOLDEN)('%s is decoded, cut at every place', (_name, bytes, type, stream, payload) => {
    const whole = hex(bytes);
    for (let at = 0; at <= whole.length; at += 1) {
      const seen = decode([whole.subarray(0, at), whole.subarray(at)]);
      expect(seen).toEqual([{ type, stream, payload: Buffer.from(payload) }]);
    }
  });

  it('come out whole and in order whatever the chunks', () => {
    const frame = fc.record({
      type: fc.integer({ min: 0, max: 255 }),
      stream: fc.integer({ min: 0, max: 0xffffffff }),
      payload: fc
        .oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ maxLength: 4_000, size: 'max' }))
        .map((bytes) => Buffer.from(bytes)),
    });
    const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 9_000 })), {
      minLength: 1,
    });
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), sizes, (frames, chunkSizes) => {
        const bytes = Buffer.concat(frames.map((one) => encodeFrame(one.type, one.stream, one.payload)));
        const seen = decode(cut(bytes, chunkSizes));
        expect(seen.length).toBe(frames.length);
        const again = Buffer.concat(seen.map((one) => encodeFrame(one.type, one.stream, one.payload)));
        expect(again.equals(bytes)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it.each([0, 1, 4_095, 65_536, MAX_PAYLOAD - 1, MAX_PAYLOAD])('of %i payload bytes pass', (size) => {
    const payload = Buffer.alloc(size, 'x');
    for (const type of [FRAME.DATA, FRAME.PUBKEY]) {
      const seen = decode(cut(encodeFrame(type, 1, payload), [65_536]));
      expect(seen).toHaveLength(1);
      expect(seen[0]!.payload.equals(payload)).toBe(true);
    }
  });

  it('that nobody wants are skipped without being kept', () => {
    const decoder = new FrameDecoder({ header: () => false, data: fail, frame: fail });
    decoder.push(encodeFrame(FRAME.PUBKEY, 0, Buffer.alloc(MAX_PAYLOAD)).subarray(0, 500_000));
    expect(decoder.buffered).toBe(0);
    expect(
      decode([encodeFrame(9, 1, Buffer.from('skip')), hex('00000005 03 00000002')], (t) => t === 3),
    ).toEqual([{ type: 3, stream: 2, payload: Buffer.alloc(0) }]);
  });

  it('of DATA are passed on as they arrive, without a copy', () => {
    const chunk = encodeFrame(FRAME.DATA, 1, Buffer.from('abcdef'));
    const pieces: Buffer[] = [];
    const decoder = new FrameDecoder({
      header: () => true,
      data: (piece) => pieces.push(piece),
      frame: fail,
    });
    decoder.push(chunk.subarray(0, 12));
    expect(pieces.map(String)).toEqual(['abc']);
    expect(decoder.buffered).toBe(0);
    decoder.push(chunk.subarray(12));
    expect(pieces.map(String)).toEqual(['abc', 'def']);
    chunk.fill('z', 9);
    expect(pieces.map(String)).toEqual(['zzz', 'zzz']);
  });
});

describe('a length that can not be', () => {
  it.each([0, 1, 4, 1_048_577, 0x62617368, 0xffffffff])(
    '%i is refused before the rest of the header',
    (length) => {
      const bytes = Buffer.alloc(9);
      bytes.writeUInt32BE(length);
      for (const chunks of [[bytes], [bytes.subarray(0, 4)], [...cut(bytes, [1])]]) {
        expect(() => decode(chunks)).toThrow(expect.objectContaining({ code: 'FRAME_LENGTH' }));
      }
    },
  );

  it('is refused in the header of a later frame too', () => {
    const good = encodeFrame(FRAME.DATA, 1, Buffer.from('ok'));
    expect(() => decode([Buffer.concat([good, Buffer.alloc(4)])])).toThrow('a frame of 0 bytes');
  });
});

function fail(): never {
  throw new Error('not wanted');
}
