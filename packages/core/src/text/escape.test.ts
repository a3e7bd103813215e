import { describe, expect, it } from 'vitest';
import { plainLine, printable } from './escape.ts';

describe('printable', () => {
  it.each([
    ['plain é ✓', 'plain é ✓'],
    ['a\r\n\tb', 'a\\r\\n\\tb'],
    ['\u001b]0;x\u0007', '\\x1b]0;x\\x07'],
    ['\u202egnp', '\\u{202e}gnp'],
    ['12345678901', '1234567890…'],
  ])('%j becomes %j', (text, shown) => {
    expect(printable(text, 10)).toBe(shown);
    expect(printable(Buffer.from(text), 10)).toBe(shown);
  });

  it('shows bytes that are no text as question marks', () => {
    expect(printable(Buffer.of(0x61, 0xff, 0xfe, 0x62))).toBe('a??b');
  });
});

describe('plainLine', () => {
  it.each([
    ['a\r\n\tb', 'a b'],
    ['  \u001b]0;x\u0007 ', ']0;x'],
    ['\u202egnp\u2028x', 'gnp x'],
    ['lone \ud800 surrogate', 'lone surrogate'],
  ])('%j becomes %j', (text, line) => {
    expect(plainLine(text)).toBe(line);
  });
});
