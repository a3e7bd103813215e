import { CR, LF } from './line-head.ts';

const PERCENT = 0x25;
const HEX = '0123456789ABCDEF';

/** Escapes what a `D` line cannot hold as it is: `%`, CR and LF. Every other byte stays. */
export function percentEncode(bytes: Buffer): Buffer {
  let escapes = 0;
  for (const byte of bytes) if (isEscaped(byte)) escapes++;
  if (escapes === 0) return bytes;
  const encoded = Buffer.allocUnsafe(bytes.length + 2 * escapes);
  let at = 0;
  for (const byte of bytes) {
    if (!isEscaped(byte)) {
      encoded[at++] = byte;
      continue;
    }
    encoded[at++] = PERCENT;
    encoded[at++] = HEX.charCodeAt(byte >> 4);
    encoded[at++] = HEX.charCodeAt(byte & 15);
  }
  return encoded;
}

/** Undoes `percentEncode`, in either case of the digits; a `%` without two digits behind it stays. */
export function percentDecode(bytes: Buffer): Buffer {
  let at = bytes.indexOf(PERCENT);
  if (at < 0) return bytes;
  const decoded = Buffer.allocUnsafe(bytes.length);
  let filled = bytes.copy(decoded, 0, 0, at);
  while (at < bytes.length) {
    const high = bytes[at] === PERCENT ? hexValue(bytes[at + 1]) : -1;
    const low = high < 0 ? -1 : hexValue(bytes[at + 2]);
    decoded[filled++] = low < 0 ? bytes[at]! : high * 16 + low;
    at += low < 0 ? 1 : 3;
  }
  return decoded.subarray(0, filled);
}

function isEscaped(byte: number): boolean {
  return byte === PERCENT || byte === LF || byte === CR;
}

function hexValue(byte: number | undefined): number {
  return byte === undefined ? -1 : HEX.indexOf(String.fromCharCode(byte).toUpperCase());
}
