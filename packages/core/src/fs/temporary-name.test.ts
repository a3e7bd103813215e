import fc from 'fast-check';
import { expect, test } from 'vitest';
import { temporaryName, temporaryNamePattern } from './temporary-name.ts';

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
  const { start, randomLength } = temporaryNamePattern(`/somewhere/${finalName}`);
  const name = temporaryName(finalName);
  expect(name.startsWith(start)).toBe(true);
  expect(name).toHaveLength(start.length + randomLength);
  expect(temporaryName('something else').startsWith(start)).toBe(false);
  expect(temporaryName(finalName)).not.toBe(name);
});
