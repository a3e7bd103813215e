import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isTemporaryName, temporaryName } from './temporary-name.ts';

test('a temporary name is never longer than the final one, in bytes, and a plain file name', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), (finalName) => {
      const name = temporaryName(finalName);
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(Buffer.byteLength(finalName));
      expect(name).toMatch(/^[.a-z0-9]+$/);
    }),
  );
});

test.for(['S.gpg-agent', 'agent.sock'])('a temporary name of %s is known as its own', (finalName) => {
  expect(isTemporaryName(temporaryName(finalName), finalName)).toBe(true);
  expect(isTemporaryName(temporaryName(finalName), 'something else')).toBe(false);
  expect(isTemporaryName(finalName, finalName)).toBe(false);
  expect(temporaryName(finalName)).not.toBe(temporaryName(finalName));
});
