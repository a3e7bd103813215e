import { PassThrough, Writable } from 'node:stream';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import { type FuzzTarget, must, pieces } from '../engine/target.ts';

const frame = (type: number, stream: number, payload: string | Buffer = '') => {
  const body = Buffer.from(payload as string);
  const bytes = Buffer.alloc(9);
  bytes.writeUInt32BE(5 + body.length);
  bytes[4] = type;
  bytes.writeUInt32BE(stream, 5);
  return Buffer.concat([bytes, body]);
};
const READY = frame(5, 0, '{"version":4,"runtime":"perl","system":"linux","uid":0,"home":"/h"}');
const MAX_HELD = 1_024;
const MAX_STREAMS = 16;
/** How a bridge may break. */
const ENDS = [
  'FRAME_LENGTH',
  'STREAM_IN_USE',
  'NOT_A_BRIDGE',
  'VERSION_MISMATCH',
  'TARGET_ERROR',
  'TARGET_CLOSED',
];

/** The host's end of a bridge, against a target that sends what it likes. Nobody takes the bytes of its streams. */
export const muxer: FuzzTarget = {
  name: 'muxer',
  seeds: [
    Buffer.concat([Buffer.of(0), READY, frame(2, 1, 'gpg-agent'), frame(1, 1, 'x'.repeat(100)), frame(8, 1)]),
    Buffer.concat([
      Buffer.of(140),
      READY,
      frame(2, 1, 'ssh-agent'),
      frame(7, 1, Buffer.of(0, 0, 255, 255)),
      frame(3, 1),
    ]),
    Buffer.concat([Buffer.of(0), frame(6, 0, 'no\x1b[31m')]),
  ],
  words: [
    READY,
    frame(2, 1, 'gpg-agent'),
    frame(2, 2, 'ssh-agent'),
    frame(3, 1),
    frame(8, 1),
    frame(1, 1, 'x'),
    frame(7, 1, Buffer.alloc(4, 255)),
    frame(12, 1, Buffer.of(0, 0, 0, 2, 111, 107)),
    frame(13, 0, 'gpg-agent'),
    'x'.repeat(500),
  ],
  maxLength: 6_000,
  run(input) {
    const carrier = new PassThrough({ highWaterMark: 1 << 20 });
    let sent = 0;
    const output = new Writable({
      write(chunk: Buffer, _encoding, done) {
        sent += chunk.length;
        done();
      },
    });
    const host = new HostMuxer(
      { input: carrier, output },
      { maxStreams: MAX_STREAMS, maxHeld: MAX_HELD, stuckMs: 1e6 },
    );
    let opened = 0;
    let ended: { code: string } | undefined;
    host.on('stream', (stream) => {
      opened += 1;
      if (opened % 3 === 0) stream.send(Buffer.from('answer'));
      if (opened % 5 === 0) stream.discard();
    });
    host.once('close', (error) => {
      ended = error;
    });
    for (const chunk of pieces(input)) {
      if (carrier.isPaused()) break; // a carrier that is not read
      carrier.emit('data', chunk);
      const { streams, held } = host.stats;
      must(streams.open <= MAX_STREAMS, 'more streams than there may be');
      must(held.inbound <= MAX_HELD + 2 * input.length, 'more is held than there may be');
      must(streams.total === opened, 'a stream that nobody was told of');
    }
    if (ended) must(ENDS.includes(ended.code), `it ended with ${ended.code}`);
    must(sent <= input.length * 20 + 1_024, 'it says far more than it was told');
    host.close();
    carrier.destroy();
    output.destroy();
  },
};
