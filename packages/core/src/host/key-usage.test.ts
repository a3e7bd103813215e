import { describe, expect, it } from 'vitest';
import {
  ALL_WORDS,
  decideByUsage,
  type GrantWord,
  type KeyUsage,
  UNKNOWN_USAGE,
  usageOfBoth,
  wordsOf,
} from './key-usage.ts';

const MINE = 'SHA256:mine';

/** A key by its capability letters. */
function key(letters: string, ssh = MINE): KeyUsage {
  return { words: wordsOf(letters), known: true, ssh };
}

function grant(words: readonly GrantWord[]) {
  return { sign: words.includes('sign'), decrypt: words.includes('decrypt'), login: words.includes('login') };
}

function passes(command: string, usage: KeyUsage, words: readonly GrantWord[]): boolean {
  return decideByUsage(command, usage, grant(words)).refused === undefined;
}

/** Every set of words. */
const GRANTS: GrantWord[][] = [0, 1, 2, 3, 4, 5, 6, 7].map((bits) =>
  [...ALL_WORDS].filter((_, index) => bits & (1 << index)),
);

/** The grants under which each command passes, as digits: 1 for sign, 2 for decrypt, 4 for login. */
const TABLE: Record<string, { PKSIGN: string; PKDECRYPT: string }> = {
  s: { PKSIGN: '1357', PKDECRYPT: '' },
  c: { PKSIGN: '1357', PKDECRYPT: '' },
  sc: { PKSIGN: '1357', PKDECRYPT: '' },
  e: { PKSIGN: '37', PKDECRYPT: '2367' },
  a: { PKSIGN: '57', PKDECRYPT: '' },
  se: { PKSIGN: '1357', PKDECRYPT: '37' },
  ce: { PKSIGN: '1357', PKDECRYPT: '37' },
  te: { PKSIGN: '1357', PKDECRYPT: '37' },
  r: { PKSIGN: '37', PKDECRYPT: '2367' },
  sr: { PKSIGN: '1357', PKDECRYPT: '37' },
  sa: { PKSIGN: '57', PKDECRYPT: '' },
  ea: { PKSIGN: '7', PKDECRYPT: '67' },
  sca: { PKSIGN: '57', PKDECRYPT: '' },
  scea: { PKSIGN: '7', PKDECRYPT: '7' },
};

describe('the usage of a key', () => {
  it.each(Object.entries(TABLE))('of [%s] decides under every grant', (letters, expected) => {
    const found = (command: string) =>
      GRANTS.flatMap((words, bits) => (passes(command, key(letters), words) ? [bits] : [])).join('');
    expect({ PKSIGN: found('PKSIGN'), PKDECRYPT: found('PKDECRYPT') }).toEqual(expected);
  });

  it('that is used with another one is that of both, and unknown if one of them is', () => {
    const [decrypts, signs] = [key('e'), key('s')];
    for (const [one, two] of [
      [decrypts, signs],
      [signs, decrypts],
    ] as const) {
      expect(usageOfBoth(one, two)).toEqual({
        words: new Set(['decrypt', 'sign']),
        each: new Set(),
        known: true,
      });
      expect(passes('PKDECRYPT', usageOfBoth(one, two), ['decrypt'])).toBe(false);
      expect(passes('PKDECRYPT', usageOfBoth(one, UNKNOWN_USAGE), [...ALL_WORDS])).toBe(false);
      expect(passes('PKDECRYPT', usageOfBoth(UNKNOWN_USAGE, one), [...ALL_WORDS])).toBe(false);
    }
    expect(passes('PKDECRYPT', usageOfBoth(decrypts, decrypts), ['decrypt'])).toBe(true);
  });

  it('that is used with another one serves a command only if both do', () => {
    const [decrypts, signs] = [key('e'), key('s')];
    for (const both of [usageOfBoth(decrypts, signs), usageOfBoth(signs, decrypts)]) {
      expect(passes('PKDECRYPT', both, [...ALL_WORDS])).toBe(false);
      expect(passes('PKSIGN', both, ['sign', 'login'])).toBe(false);
    }
    expect(passes('PKDECRYPT', usageOfBoth(decrypts, key('se')), [...ALL_WORDS])).toBe(true);
    expect(passes('PKSIGN', usageOfBoth(signs, key('se')), ['sign'])).toBe(true);
  });

  it('that is unknown needs every word, and never decrypts', () => {
    const found = (command: string, usage: KeyUsage | undefined) =>
      GRANTS.filter((words) => decideByUsage(command, usage, grant(words)).refused === undefined);
    for (const command of ['PKSIGN', 'PKAUTH'])
      expect(found(command, UNKNOWN_USAGE)).toEqual([['sign', 'decrypt', 'login']]);
    expect(found('PKDECRYPT', UNKNOWN_USAGE)).toEqual([]);
    expect(found('PKDECRYPT', undefined)).toEqual([['sign', 'decrypt', 'login']]);
    expect(decideByUsage('PKSIGN', UNKNOWN_USAGE, { login: false }).refused).toMatch(/doesn't know/);
  });

  it('never lets a command pass whose own word is not granted', () => {
    for (const letters of Object.keys(TABLE)) {
      expect(passes('PKSIGN', key(letters), ['decrypt', 'login'])).toBe(false);
      expect(passes('PKDECRYPT', key(letters), ['sign', 'login'])).toBe(false);
    }
  });

  it('lets a key log in that is among those that are offered over SSH', () => {
    const offered = new Set([MINE]);
    expect(decideByUsage('PKSIGN', key('sca'), { login: offered })).toEqual({
      note: 'a key that also logs in over SSH',
    });
    expect(decideByUsage('PKSIGN', key('sca', 'SHA256:other'), { login: offered }).refused).toMatch(
      /can also log in over SSH/,
    );
    const { ssh: _ssh, ...nameless } = key('sca');
    expect(decideByUsage('PKSIGN', nameless, { login: offered }).refused).toBeDefined();
  });

  it('is noted where a use may be another than its command says', () => {
    expect(decideByUsage('PKSIGN', key('sc'), {})).toEqual({});
    expect(decideByUsage('PKDECRYPT', key('e'), {})).toEqual({});
    expect(decideByUsage('PKSIGN', key('se'), {})).toEqual({});
    expect(decideByUsage('PKDECRYPT', key('s'), {})).toEqual({ refused: 'that key does not decrypt' });
    expect(decideByUsage('PKDECRYPT', key('scea'), {}).note).toBe(
      'a key that also signs and logs in over SSH',
    );
    expect(decideByUsage('PKSIGN', key('a'), {}).note).toBe('a key that logs in over SSH');
    expect(decideByUsage('PKSIGN', UNKNOWN_USAGE, {}).note).toBe('a key of unknown usage');
  });

  it('says nothing about other commands', () => {
    expect(decideByUsage('HAVEKEY', UNKNOWN_USAGE, grant([]))).toEqual({});
  });

  it('reads the letters of one key, and not the capitals of the whole certificate', () => {
    expect([...wordsOf('scSCEA')]).toEqual(['sign']);
    expect([...wordsOf('e')]).toEqual(['decrypt']);
    expect([...wordsOf('escaESCAD')].sort()).toEqual(['decrypt', 'login', 'sign']);
    expect([...wordsOf('')]).toEqual([]);
  });
});
