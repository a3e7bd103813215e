import { describe, expect, it } from 'vitest';
import { jsonLine, plainLine, printable, printableValue } from './escape.ts';

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

describe('jsonLine', () => {
  it('is the same value, with nothing that a terminal would obey', () => {
    const value = { text: 'a\u001b\u007f\u009b\u202e\u2028\u{e0001}é✓', list: [1, null, true] };
    expect(JSON.parse(jsonLine(value))).toEqual(value);
    expect(jsonLine(value)).toMatch(/^[\x20-\x7eé✓]*$/);
  });
});

describe('printableValue', () => {
  it('makes every text in a value printable, and leaves the rest', () => {
    const value = { a: '\u001b', list: ['\u202e', 1], none: null, inner: { b: '\n', c: undefined } };
    const shown = { a: '\\x1b', list: ['\\u{202e}', 1], none: null, inner: { b: '\\n', c: undefined } };
    expect(printableValue(value)).toEqual(shown);
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
