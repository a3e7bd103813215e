/**
 * Bytes or text of the other end as one printable line: control characters are escaped (a terminal would
 * obey them), and what is longer than `limit` characters is cut.
 */
export function printable(value: Buffer | string, limit = 400): string {
  // Four bytes make one character at most, so nothing that could be shown is cut before it is decoded.
  const text = typeof value === 'string' ? value : value.subarray(0, limit * 4).toString('utf8');
  const escaped = text.slice(0, limit).replace(/[\p{Cc}\p{Cf}\u2028\u2029\uFFFD]/gu, (character) => {
    const named = NAMED[character];
    if (named) return named;
    const code = character.codePointAt(0)!;
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
  return text.length > limit ? `${escaped}…` : escaped;
}

/**
 * Text of the other end as one plain line, for places that show no escapes: runs of control, direction and
 * white-space characters, and lone surrogates, become one space. A direction character can make a dialog
 * or a terminal say something else.
 */
export function plainLine(text: string): string {
  return text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim();
}

const NAMED: Partial<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\uFFFD': '?' };
