import type { Writable } from 'node:stream';
import { writeNow } from './write-now.ts';

const PIECE_BYTES = 65_536;
/** One for all: a piece is done with before the next is made. */
const shared = Buffer.allocUnsafeSlow(PIECE_BYTES);

/**
 * Writes a string, one byte a character, a piece at a time: a large one is never in memory as bytes, too.
 * `look` is shown every piece before it leaves; `written` is called once, at once if the kernel takes it all.
 */
export function writeText(
  output: Writable,
  text: string,
  written: (error?: Error | null) => void,
  look?: (piece: Buffer) => void,
): void {
  let at = 0;
  const next = (error?: Error | null): void => {
    while (!error && at < text.length) {
      const length = shared.write(text.substring(at, at + PIECE_BYTES), 'latin1');
      at += length;
      const piece = shared.subarray(0, length);
      look?.(piece);
      if (!writeNow(output, piece, next)) return;
    }
    written(error);
  };
  next();
}
