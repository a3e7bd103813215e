import { type BlockKind, BlockScanner, MAX_LINE_BYTES } from '@gpg-bridge/core/assuan/block-scanner';
import { isOneBlock } from '@gpg-bridge/core/assuan/one-block';
import { type FuzzTarget, mayFail, must, pieces } from '../engine/target.ts';

const KINDS: readonly BlockKind[] = ['greeting', 'command', 'inquiry', 'response'];
const FAILURES = ['LINE_TOO_LONG', 'BLOCK_TOO_LARGE', 'BAD_RESPONSE'];
const MAX_BLOCK = 2_000;

/** The blocks of some bytes; they have to be these bytes, in order, with nothing lost or added. */
function blocks(chunks: readonly Buffer[], kinds: Buffer): string[] {
  const scanner = new BlockScanner({ maxBlock: MAX_BLOCK });
  const found: string[] = [];
  let pushed = 0;
  let taken = 0;
  const kind = () => KINDS[(kinds[found.length % Math.max(1, kinds.length)] ?? 0) % 4]!;
  const isFine = mayFail(FAILURES, () => {
    for (const chunk of chunks) {
      scanner.push(chunk);
      pushed += chunk.length;
      for (let block = scanner.next(kind()); block; block = scanner.next(kind())) {
        must(block.bytes.length > 0, 'an empty block');
        must(block.bytes.includes(block.line), 'a line that is not in its block');
        taken += block.bytes.length;
        found.push(`${block.word}|${block.bytes.toString('latin1')}`);
        if (kind() === 'command')
          must(block.bytes.length <= MAX_BLOCK + MAX_LINE_BYTES + 2, 'too large a block');
      }
      must(taken + scanner.buffered === pushed, 'bytes were lost or added');
    }
  });
  return isFine ? found : [...found, 'failed'];
}

/** The readers of Assuan blocks. */
export const assuanBlocks: FuzzTarget = {
  name: 'assuan-blocks',
  maxLength: 3_000,
  seeds: [
    '\x00\x01OK Pleased to meet you\nNOP\n# x\n\nRESET\n',
    '\x80\x03D a%0Ab\nS x\nERR 1 no\nINQUIRE X\nEND\n',
    `\x40\x02D ${'x'.repeat(1_000)}\nD y\nEND\n`,
  ],
  words: [
    'OK',
    'ERR 1 x\n',
    'INQUIRE X\n',
    'D ',
    'd ',
    'END\n',
    'CAN\n',
    '# ',
    'S ',
    '\r\n',
    'x'.repeat(990),
  ],
  run(input) {
    const kinds = input.subarray(1, 1 + Math.min(8, input[1] ?? 0));
    const rest = Buffer.concat([input.subarray(0, 1), input.subarray(1 + kinds.length)]);
    const chunks = pieces(rest);
    const whole = blocks([Buffer.concat(chunks)], kinds);
    const cut = blocks(chunks, kinds);
    // A limit may be met earlier in one piece than in many; what came out before it is the same.
    const common = Math.min(whole.length, cut.length) - 1;
    for (let at = 0; at < common; at++) must(whole[at] === cut[at], 'it depends on where the bytes were cut');
    const text = rest.toString('latin1');
    for (const kind of ['command', 'inquiry'] as const) {
      if (!isOneBlock(text, kind)) continue;
      const scanner = new BlockScanner();
      scanner.push(rest);
      const block = scanner.next(kind);
      must(block?.bytes.length === rest.length, 'one block is more than one to the scanner');
    }
  },
};
