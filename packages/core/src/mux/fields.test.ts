import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeFields, encodeFields } from './fields.ts';

const fields = fc.array(fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.string({ unit: 'binary' })), {
  maxLength: 20,
});

/** A field as it was given to `encodeFields`, as bytes. */
const bytesOf = (field: string | Uint8Array): Buffer => Buffer.from(field as string);

describe('fields', () => {
  it('are written byte for byte', () => {
    expect(encodeFields([])).toEqual(Buffer.alloc(0));
    expect(encodeFields(['stat', '', Buffer.of(0, 255), 'é']).toString('hex')).toBe(
      '00000004737461740000000000000002' + '00ff00000002c3a9',
    );
  });

  it('come out as they went in', () => {
    fc.assert(
      fc.property(fields, (list) => {
        const given = list.map((field) => (typeof field === 'string' ? field : Buffer.from(field)));
        expect(decodeFields(encodeFields(given))).toEqual(list.map(bytesOf));
      }),
    );
  });

  it('that are cut off are none, unless the cut is between two', () => {
    fc.assert(
      fc.property(fields, fc.nat(), (list, place) => {
        const parts = list.map((field) => encodeFields([bytesOf(field)]));
        const whole = Buffer.concat(parts);
        const cut = place % (whole.length + 1);
        let [end, fits] = [0, 0];
        while (end < cut) end += parts[fits++]!.length;
        const expected = end === cut ? list.slice(0, fits).map(bytesOf) : undefined;
        expect(decodeFields(whole.subarray(0, cut))).toEqual(expected);
      }),
    );
  });

  it('are read from any bytes, or not, and never from beyond them', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (garbage) => {
        const payload = Buffer.from(garbage);
        const found = decodeFields(payload);
        if (found) expect(encodeFields(found)).toEqual(payload);
      }),
    );
  });

  it.each(['00', '000000', '00000001', '0000000278', 'ffffffff', '00000000ff', '7fffffff78'])(
    '%s has none that can be read',
    (hex) => {
      expect(decodeFields(Buffer.from(hex, 'hex'))).toBeUndefined();
    },
  );
});
