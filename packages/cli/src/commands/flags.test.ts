import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BridgeOptions, bridgeWords } from '../bridge-options.ts';
import { bridgeOptions } from './flags.ts';
import { parseCommand } from './parse.ts';

/** What a program's argument can hold. */
const word = fc.string({ minLength: 1, unit: 'binary' }).filter((text) => !text.includes('\0'));
/** IDs stand between commas, and blanks around them are not theirs. */
const keyId = word
  .map((text) => text.replaceAll(',', '').trim())
  .filter((text) => text !== '' && !['pairs', 'all', 'none'].includes(text));

const options = fc.record(
  {
    gpg: fc.boolean(),
    ssh: fc.boolean(),
    user: word,
    keys: fc.oneof(
      fc.constantFrom('pairs' as const, 'all' as const, 'none' as const),
      fc.array(keyId, { minLength: 1, maxLength: 4 }),
    ),
    sshKeys: fc.array(word, { minLength: 1, maxLength: 4 }),
    sshFromGpg: fc.constant(true),
    runtime: fc.constantFrom('node' as const, 'perl' as const, 'native' as const),
    takeover: fc.constant(true),
    restart: fc.constant(true),
    exec: word,
  },
  { requiredKeys: [] },
) satisfies fc.Arbitrary<BridgeOptions>;

const parsed = (...words: string[]) => bridgeOptions('up', parseCommand('up', words).flags);

describe('flags', () => {
  it('say the same to a daemon as to `up`', () => {
    fc.assert(
      fc.property(options, (given) => {
        const { flags, operands } = parseCommand('serve', bridgeWords(given));
        expect(operands).toEqual([]);
        expect(bridgeOptions('serve', flags)).toEqual(given);
      }),
    );
  });

  it('set nothing that was not said', () => {
    expect(parsed('box')).toEqual({});
    expect(bridgeWords({})).toEqual([]);
  });

  it('read --gpg and --no-ssh as wanted and unwanted', () => {
    expect(parsed('box', '--gpg', '--no-ssh')).toEqual({ gpg: true, ssh: false });
  });

  it.each(['gpg', 'ssh'])('refuse --%s together with its opposite', (name) => {
    expect(() => parsed('box', `--${name}`, `--no-${name}`)).toThrow(
      `--${name} and --no-${name} exclude each other`,
    );
  });

  it('read --keys as a choice or as a list', () => {
    expect(parsed('box', '--keys', 'all')).toEqual({ keys: 'all' });
    expect(parsed('box', '--keys', 'ada@example.org, 0xABCD')).toEqual({
      keys: ['ada@example.org', '0xABCD'],
    });
    expect(() => parsed('box', '--keys', 'a,,b')).toThrow('--keys takes pairs, all, none');
  });
});
