import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { percentDecode } from './percent.ts';

const latin1 = (bytes: Buffer) => bytes.toString('latin1');

describe('percentDecode', () => {
  it.each([
    ['100 %25%0D%0A\0+\xff', '100 %\r\n\0+\xff'],
    ['%41%4a%4A', 'AJJ'],
    ['a%', 'a%'],
    ['a%4', 'a%4'],
    ['%zz%4g%%41', '%zz%4g%A'],
    ['%0a%0D%25', '\n\r%'],
    ['', ''],
  ])('decodes %j', (encoded, decoded) => {
    expect(latin1(percentDecode(Buffer.from(encoded, 'latin1')))).toBe(decoded);
  });

  it('brings every byte back, whichever of them were escaped', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(255), fc.boolean())), (bytes) => {
        const escaped = bytes.map(([byte, mayStay]) =>
          mayStay && byte !== 0x25 ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`,
        );
        const decoded = percentDecode(Buffer.from(escaped.join(''), 'latin1'));
        expect([...decoded]).toEqual(bytes.map(([byte]) => byte));
      }),
    );
  });

  it('returns what needs no change as it is', () => {
    const plain = Buffer.from('plain');
    expect(percentDecode(plain)).toBe(plain);
  });
});
