import { expect } from 'vitest';

/** Words that a terminal would obey, a shell would run and a reader would misread. */
export const EVIL = 'x\u001b]0;evil\u0007\u009b31m\u202e\r\n; rm -rf ~';

/** Control characters other than line ends, and characters that change the direction of text. */
const OBEYED = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

/** Fails if a terminal would obey something in a text. */
export function expectHarmless(...texts: readonly string[]): void {
  for (const text of texts) expect(JSON.stringify(OBEYED.exec(text)?.[0] ?? null)).toBe('null');
}
