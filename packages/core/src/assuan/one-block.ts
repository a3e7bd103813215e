import { MAX_LINE_BYTES } from './block-scanner.ts';
import { LineHead } from './line-head.ts';

const PIECE_CHARACTERS = 65_536;

/**
 * Whether a text, a byte a character, is exactly what a client may send in one turn: one command, or the data of an
 * inquiry and the line that ends it; comments and blank lines may stand before. With more than one command in it, what
 * the agent answers would not be what was asked for.
 */
export function isOneBlock(text: string, kind: 'command' | 'inquiry'): boolean {
  if (!text.endsWith('\n')) return false;
  const line = new LineHead();
  let isOver = false;
  for (let start = 0; start < text.length; start += PIECE_CHARACTERS) {
    const piece = Buffer.from(text.substring(start, start + PIECE_CHARACTERS), 'latin1');
    for (let at = 0; at < piece.length; ) {
      at = line.read(piece, at);
      // In an inquiry the agent takes what is behind the limit for a command.
      if (line.length > MAX_LINE_BYTES) return false;
      if (isOver) return false;
      if (at < 0) break;
      isOver = !line.isBlank && !line.isComment && !(kind === 'inquiry' && line.isData);
    }
  }
  return isOver;
}
