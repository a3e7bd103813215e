import { describe, expect, it } from 'vitest';
import { decodeError, describeError, errorValueOf, isCancellation } from './error-codes.ts';

describe('error codes', () => {
  it.each([
    [67109115, 'Forbidden <GPG Agent>'],
    [67108941, 'No agent running <GPG Agent>'],
    [67108881, 'No secret key <GPG Agent>'],
    [83886179, 'Operation cancelled <Pinentry>'],
    [(6 << 24) | 112, 'Card not present <SCD>'],
    [(4 << 24) | 32849, 'No such file or directory <GPG Agent>'],
    [(5 << 24) | 32870, 'Inappropriate ioctl for device <Pinentry>'],
    [(4 << 24) | 9999, 'Unknown error code 9999 <GPG Agent>'],
    [(99 << 24) | 1, 'General error <Unknown source>'],
    [17, 'No secret key <Unspecified source>'],
  ])('words %i as %s', (value, words) => {
    expect(describeError(value)).toBe(words);
  });

  it('takes a value apart', () => {
    expect(decodeError(67109115)).toEqual({
      source: 4,
      sourceName: 'GPG Agent',
      code: 251,
      text: 'Forbidden',
    });
  });

  it.each([
    ['ERR 67109115 Forbidden <GPG Agent>', 67109115],
    ['ERR 1', 1],
    ['ERR', undefined],
    ['ERR x', undefined],
    ['ERR 12345678901', undefined],
    ['OK 67109115', undefined],
    ['ERRATIC 1', undefined],
  ])('finds the value in %j', (line, value) => {
    expect(errorValueOf(line)).toBe(value);
    expect(errorValueOf(Buffer.from(line))).toBe(value);
  });

  it('knows which errors are a person saying no', () => {
    expect([83886179, (4 << 24) | 198, 67109141].map(isCancellation)).toEqual([true, true, true]);
    expect(isCancellation(67109115)).toBe(false);
  });
});
