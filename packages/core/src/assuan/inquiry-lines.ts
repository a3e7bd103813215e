import { CR, LF } from './line-head.ts';

const PERCENT = 0x25;
const CANCEL = 'CAN';
const ENDS: readonly string[] = ['END', CANCEL];

/**
 * Whether a line of the form `D …`, with its LF, may reach gpg-agent: every `%` has two hex digits behind it, and a CR
 * stands only before the LF. libassuan never returns from an escape that is cut off, and its whole agent hangs.
 */
export function isWholeDataLine(line: Buffer): boolean {
  const end = line.length - 1;
  const cr = line.indexOf(CR);
  if (line[end] !== LF || (cr >= 0 && cr !== end - 1)) return false;
  const dataEnd = cr < 0 ? end : cr;
  for (let at = line.indexOf(PERCENT); at >= 0; at = line.indexOf(PERCENT, at + 3)) {
    if (at + 2 >= dataEnd || !isHexDigit(line[at + 1]!) || !isHexDigit(line[at + 2]!)) return false;
  }
  return true;
}

/** Whether a line with its LF ends the data of an inquiry, in one of the two ways that clients use. */
export function endsInquiry(line: Buffer): boolean {
  return ENDS.includes(textOf(line));
}

/** Whether the line that ends an inquiry takes the command back. */
export function isCancel(line: Buffer): boolean {
  return textOf(line) === CANCEL;
}

function textOf(line: Buffer): string {
  return line.toString('latin1').replace(/\r?\n$/, '');
}

function isHexDigit(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
