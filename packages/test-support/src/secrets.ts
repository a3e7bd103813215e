import { inspect } from 'node:util';
import { expect } from 'vitest';

/** Fails when a secret shows in anything a person could read of these values: errors, causes, log lines. */
export function expectNoSecret(secret: Buffer, ...values: unknown[]): void {
  for (const value of values) {
    for (const text of readable(value)) {
      for (const encoding of ['latin1', 'hex', 'base64', 'utf8'] as const) {
        expect(text.includes(secret.toString(encoding)), `secret as ${encoding} in: ${text}`).toBe(false);
      }
      expect(text.toLowerCase()).not.toContain(secret.toString('hex'));
      // As `inspect` prints a Buffer, and as JSON does.
      expect(text).not.toContain((secret.toString('hex').match(/../g) ?? []).join(' '));
      expect(text).not.toContain([...secret].join(','));
    }
  }
}

function readable(value: unknown): string[] {
  const texts = [String(value), inspect(value, { depth: Infinity, showHidden: true })];
  try {
    texts.push(JSON.stringify(value) ?? '');
  } catch {
    // a cycle; `inspect` has shown it
  }
  if (value instanceof Error) {
    texts.push(value.message, value.stack ?? '');
    if (value.cause !== undefined) texts.push(...readable(value.cause));
  }
  return texts;
}
