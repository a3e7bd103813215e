const PERCENT = 0x25;
const HEX = '0123456789ABCDEF';

/** Undoes the escapes of a `D` line, `%` and two hexadecimal digits; a `%` without them stays. */
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

function hexValue(byte: number | undefined): number {
  return byte === undefined ? -1 : HEX.indexOf(String.fromCharCode(byte).toUpperCase());
}
