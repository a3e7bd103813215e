import type { Writable } from 'node:stream';
import { writeNow } from './write-now.ts';

const PIECE_BYTES = 65_536;
/** One for all: a piece is done with before the next is made. */
const shared = Buffer.allocUnsafeSlow(PIECE_BYTES);

/** Told when there is room for more, or what went wrong. */
export type TextTaken = (error?: Error | null) => void;

/**
 * Hands out a string, one byte a character, a piece at a time: a large one is never in memory as bytes, too. `take`
 * returns false if it calls `next` when it wants more; `done` is called once, at once if it always wanted more.
 */
export function inPieces(
  text: string,
  take: (piece: Buffer, next: TextTaken) => boolean,
  done: TextTaken,
): void {
  let at = 0;
  const next = (error?: Error | null): void => {
    while (!error && at < text.length) {
      const length = shared.write(text.substring(at, at + PIECE_BYTES), 'latin1');
      at += length;
      if (!take(shared.subarray(0, length), next)) return;
    }
    done(error);
  };
  next();
}

/** Writes a string, one byte a character; `written` is called once, at once if the kernel takes it all. */
export function writeText(output: Writable, text: string, written: TextTaken): void {
  inPieces(text, (piece, next) => writeNow(output, piece, next), written);
}
