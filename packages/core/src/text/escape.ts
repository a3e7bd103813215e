/**
 * Bytes or text of the other end as one printable line: control characters are escaped (a terminal would
 * obey them), and what is longer than `limit` characters is cut.
 */
export function printable(value: Buffer | string, limit = 400): string {
  // Four bytes make one character at most, so nothing that could be shown is cut before it is decoded.
  const text = typeof value === 'string' ? value : value.subarray(0, limit * 4).toString('utf8');
  if (PLAIN.test(text) && text.length <= limit) return text;
  const escaped = text.slice(0, limit).replace(/[\p{Cc}\p{Cf}\u2028\u2029\uFFFD]/gu, (character) => {
    const named = NAMED[character];
    if (named) return named;
    const code = character.codePointAt(0)!;
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
  return text.length > limit ? `${escaped}…` : escaped;
}

/**
 * A value as one line of JSON that a terminal prints and does not obey: JSON itself leaves DEL, the control characters
 * from 0x80 on and direction characters as they are.
 */
export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value);
  if (PLAIN.test(text)) return text;
  return text.replace(/[\x7f-\x9f\p{Cf}\u2028\u2029]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** A value with every text in it made printable, whatever its length: for what is shown on a terminal. */
export function printableValue<T>(value: T): T;
export function printableValue(value: unknown): unknown {
  if (typeof value === 'string') return printable(value, Number.POSITIVE_INFINITY);
  if (Array.isArray(value)) return value.map((each) => printableValue(each));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, printableValue(each)]));
}

/**
 * Text of the other end as one plain line, for places that show no escapes: runs of control, direction and
 * white-space characters, and lone surrogates, become one space. A direction character can make a dialog
 * or a terminal say something else.
 */
export function plainLine(text: string): string {
  return text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim();
}

/** Text without anything to escape. Most is; and V8 takes a millisecond to make the classes of all of Unicode. */
const PLAIN = /^[\x20-\x7e]*$/;
const NAMED: Partial<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\uFFFD': '?' };
