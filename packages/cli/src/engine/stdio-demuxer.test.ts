import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type StdioChannel, StdioDemuxer } from './stdio-demuxer.ts';

interface Frame {
  channel: StdioChannel;
  payload: Uint8Array;
}

function encode({ channel, payload }: Frame): Buffer {
  const header = Buffer.alloc(8);
  header[0] = channel === 'stdout' ? 1 : 2;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

function collector(): {
  demuxer: StdioDemuxer;
  pieces: [StdioChannel, Buffer][];
  of(c: StdioChannel): Buffer;
} {
  const pieces: [StdioChannel, Buffer][] = [];
  const demuxer = new StdioDemuxer((channel, piece) => pieces.push([channel, piece]));
  const of = (wanted: StdioChannel) =>
    Buffer.concat(pieces.filter(([channel]) => channel === wanted).map(([, piece]) => piece));
  return { demuxer, pieces, of };
}

const frame = fc.record<Frame>({
  channel: fc.constantFrom<StdioChannel>('stdout', 'stderr'),
  payload: fc.uint8Array({ maxLength: 40 }),
});

describe('StdioDemuxer', () => {
  it('reads literal bytes', () => {
    const { demuxer, pieces } = collector();
    demuxer.push(Buffer.from('0100000000000002' + '6f6b' + '0200000000000001' + '21', 'hex'));
    expect(pieces.map(([channel, piece]) => [channel, piece.toString()])).toEqual([
      ['stdout', 'ok'],
      ['stderr', '!'],
    ]);
  });

  it('gives each channel its bytes in order, however the stream is cut', () => {
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 12 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 20 })),
        (frames, sizes) => {
          const bytes = Buffer.concat(frames.map(encode));
          const { demuxer, of } = collector();
          for (let at = 0; at < bytes.length; ) {
            const size = sizes.next().value!;
            demuxer.push(bytes.subarray(at, at + size));
            at += size;
          }
          for (const channel of ['stdout', 'stderr'] as const) {
            const expected = frames.filter((each) => each.channel === channel).map((each) => each.payload);
            expect(of(channel)).toEqual(Buffer.concat(expected));
          }
        },
      ),
    );
  });

  it('hands a payload on as it arrives, as slices of what was pushed', () => {
    const { demuxer, pieces } = collector();
    const bytes = encode({ channel: 'stdout', payload: Buffer.from('abcdef') });
    const first = bytes.subarray(0, 11);
    demuxer.push(first);
    expect(pieces).toHaveLength(1);
    expect(pieces[0]?.[1].buffer).toBe(first.buffer);
    expect(pieces[0]?.[1].toString()).toBe('abc');
    demuxer.push(bytes.subarray(11));
    expect(pieces[1]?.[1].toString()).toBe('def');
  });

  it('hands nothing on inside a header', () => {
    const { demuxer, pieces } = collector();
    demuxer.push(Buffer.from([1, 0, 0]));
    expect(pieces).toEqual([]);
    demuxer.push(Buffer.from([0, 0, 0, 0, 1, 33]));
    expect(pieces.map(([channel, piece]) => [channel, piece.toString()])).toEqual([['stdout', '!']]);
  });

  it('takes a frame larger than any chunk without holding it', () => {
    const { demuxer, pieces } = collector();
    demuxer.push(Buffer.from([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
    const chunk = Buffer.alloc(65_536);
    for (let i = 0; i < 16; i++) demuxer.push(chunk);
    expect(pieces.map(([, piece]) => piece.length)).toEqual(Array(16).fill(65_536));
  });

  it.each([0, 3, 72])('refuses stream type %i', (type) => {
    const { demuxer } = collector();
    expect(() => demuxer.push(Buffer.from([type, 0, 0, 0, 0, 0, 0, 1]))).toThrow(`stream type ${type}`);
  });
});
