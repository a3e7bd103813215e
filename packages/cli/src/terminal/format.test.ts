import { describe, expect, it } from 'vitest';
import { byteCount, duration, milliseconds, shortKey } from './format.ts';

describe('words', () => {
  it.each([
    [0, '0 s'],
    [59.9, '59 s'],
    [60, '1 min'],
    [3_600, '1 h 0 min'],
    [47 * 3_600 + 60, '47 h 1 min'],
    [48 * 3_600, '2 days'],
  ])('%d seconds are %s', (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.00 kB'],
    [123_456, '123 kB'],
    [5_000_000, '5.00 MB'],
    [7e14, '700 TB'],
  ])('%d bytes are %s', (bytes, text) => expect(byteCount(bytes)).toBe(text));

  it.each([
    [0, '0 ms'],
    [999, '999 ms'],
    [1_234, '1.2 s'],
  ])('%d milliseconds are %s', (ms, text) => expect(milliseconds(ms)).toBe(text));

  it('cut keys to what a person compares', () => {
    expect(shortKey('0123456789ABCDEF0123456789ABCDEF01234567')).toBe('89ABCDEF01234567');
    expect(shortKey('SHA256:abcdefghijklmnopqrstuvwxyz')).toBe('SHA256:abcdefghijk');
  });
});
