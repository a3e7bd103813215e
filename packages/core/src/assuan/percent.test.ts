import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { percentDecode, percentEncode } from './percent.ts';

const latin1 = (bytes: Buffer) => bytes.toString('latin1');

describe('percent coding', () => {
  it('escapes what a data line cannot hold, and nothing else', () => {
    expect(latin1(percentEncode(Buffer.from('100 %\r\n\0+\xff', 'latin1')))).toBe('100 %25%0D%0A\0+\xff');
  });

  it.each([
    ['%41%4a%4A', 'AJJ'],
    ['a%', 'a%'],
    ['a%4', 'a%4'],
    ['%zz%4g%%41', '%zz%4g%A'],
    ['%0a%0D%25', '\n\r%'],
    ['', ''],
  ])('decodes %j', (encoded, decoded) => {
    expect(latin1(percentDecode(Buffer.from(encoded, 'latin1')))).toBe(decoded);
  });

  it('brings every byte back', () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    expect(percentDecode(percentEncode(all)).equals(all)).toBe(true);
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const encoded = percentEncode(Buffer.from(bytes));
        expect(encoded.includes(0x0a) || encoded.includes(0x0d)).toBe(false);
        expect(percentDecode(encoded).equals(bytes)).toBe(true);
      }),
    );
  });

  it('returns what needs no change as it is', () => {
    const plain = Buffer.from('plain');
    expect(percentEncode(plain)).toBe(plain);
    expect(percentDecode(plain)).toBe(plain);
  });
});
