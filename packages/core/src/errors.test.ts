import { EVIL, expectHarmless } from '@gpg-bridge/test-support/harmless';
import { describe, expect, it } from 'vitest';
import { BridgeError, toBridgeError } from './errors.ts';

describe('an error', () => {
  it('has nothing that a terminal would obey in any part, whoever said it', () => {
    const error = new BridgeError('INTERNAL', { what: EVIL, why: `${EVIL}.`, fix: EVIL });
    expectHarmless(error.what, error.why, error.fix, error.message, error.stack ?? '');
    expect(error.message).not.toContain('\n');
    expectHarmless(toBridgeError(new Error(EVIL), EVIL).message);
    expectHarmless(BridgeError.fromJSON({ code: 'INTERNAL', what: EVIL, why: EVIL, fix: EVIL }).message);
  });

  it('is one line that is short enough to read, however much was said', () => {
    const { message } = new BridgeError('INTERNAL', {
      what: `${' '.repeat(4_000_000)}x`,
      why: `${' '.repeat(4_000_000)}x`,
      fix: '\n'.repeat(4_000_000),
    });
    expect(message.length).toBeLessThan(10_000);
  });

  it.each([
    ['it is gone', 'it is gone. Try again.'],
    ['it is gone.\n', 'it is gone. Try again.'],
    ['is it running?', 'is it running? Try again.'],
  ])('that says %j ends its sentence once', (why, end) => {
    expect(new BridgeError('INTERNAL', { what: 'no', why, fix: 'Try again.' }).message).toBe(`no: ${end}`);
  });
});
