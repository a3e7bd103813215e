import { FrameDecoder } from '@gpg-bridge/core/mux/codec';
import { decodeFields, encodeFields } from '@gpg-bridge/core/mux/fields';
import { HEADER_BYTES, MAX_LENGTH } from '@gpg-bridge/core/mux/frame';
import { type FuzzTarget, mayFail, must, pieces } from '../engine/target.ts';

const head = (length: number, type: number, stream: number) => {
  const bytes = Buffer.alloc(9);
  bytes.writeUInt32BE(length);
  bytes[4] = type;
  bytes.writeUInt32BE(stream, 5);
  return bytes;
};

/** Everything that a decoder tells of some bytes, as one text; where they were cut must make no difference. */
function decoded(chunks: readonly Buffer[]): string {
  const told: string[] = [];
  let data = '';
  const decoder = new FrameDecoder({
    header(type, stream, length) {
      told.push(`${data}${type}/${stream}/${length}`);
      data = '';
      return type !== 99;
    },
    data(piece) {
      data += piece.toString('latin1');
    },
    frame(type, stream, payload) {
      told.push(`${type}/${stream}:${payload.toString('latin1')}`);
      const fields = decodeFields(payload);
      if (fields) must(encodeFields(fields).equals(payload), 'fields are not what was decoded');
    },
  });
  const isWhole = mayFail(['FRAME_LENGTH'], () => {
    for (const chunk of chunks) {
      decoder.push(chunk);
      must(decoder.buffered <= MAX_LENGTH + HEADER_BYTES, 'more than a frame is held');
    }
  });
  return [...told, data, isWhole ? 'whole' : 'broken'].join('\n');
}

/** The frame decoder. */
export const frames: FuzzTarget = {
  name: 'frames',
  seeds: [
    Buffer.concat([Buffer.of(0), head(9, 1, 1), Buffer.from('data')]),
    Buffer.concat([Buffer.of(130), head(14, 2, 7), Buffer.from('gpg-agent'), head(5, 3, 7), head(5, 99, 1)]),
    Buffer.concat([Buffer.of(64), head(13, 12, 1), Buffer.from([0, 0, 0, 2]), Buffer.from('ok')]),
  ],
  words: [head(5, 1, 1), head(6, 5, 0), head(9, 7, 1), head(1_048_576, 1, 1), 'gpg-agent', 'ssh-agent'],
  run(input) {
    const chunks = pieces(input);
    must(decoded(chunks) === decoded([Buffer.concat(chunks)]), 'it depends on where the bytes were cut');
  },
};
