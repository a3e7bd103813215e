import { describe, expect, it } from 'vitest';
import {
  type BridgeOptions,
  checkKeyChoice,
  checkOptions,
  mergedOptions,
  optionChanges,
  withDeadline,
} from './bridge-options.ts';

const changes = (before: BridgeOptions, given: BridgeOptions) =>
  optionChanges(before, mergedOptions(before, given)).map(
    ({ option, from, to }) => `${option}: ${from} → ${to}`,
  );

describe('options of a bridge that runs', () => {
  it.each<[BridgeOptions, BridgeOptions, string[]]>([
    [{}, {}, []],
    [{ sshKeys: ['a'], gpg: false }, {}, []],
    [{ sshKeys: ['a', 'b'] }, { sshKeys: ['b', 'a'] }, []],
    [{}, { keys: 'pairs', runtime: 'auto', sshKeys: [], restart: false, sshFromGpg: false }, []],
    [{}, { takeover: true }, []],
    [{ sshKeys: ['a'] }, { sshKeys: ['b', 'c'] }, ['--ssh-key: a → b,c']],
    [{ gpgKeys: ['a'] }, { gpgKeys: [] }, ['--gpg-key: a → default']],
    [{ gpgKeys: ['a'], decrypt: false }, { gpg: false }, ['--gpg: default → no']],
    [{ sshKeys: ['a'] }, { ssh: false }, ['--ssh: default → no']],
    [{}, { decrypt: true, allowPassphrase: false, gpgKeys: [] }, []],
    [{ for: '2h', until: 'A' }, { for: '2h', until: 'B' }, []],
    [{ for: '2h', until: 'A' }, { for: 'none' }, ['--for: 2h → default']],
    [{}, { for: 'none', idle: 'none' }, []],
    [{ decrypt: false }, {}, []],
    [{ decrypt: false }, { decrypt: true }, ['--decrypt: no → default']],
    [{ sshKeys: ['a'] }, { sshKeys: [] }, ['--ssh-key: a → default']],
    [{ gpg: false }, { gpg: true }, ['--gpg: no → yes']],
    [{ keys: ['a', 'b'] }, { keys: 'all' }, ['--keys: a,b → all']],
    [{ runtime: 'perl' }, { runtime: 'auto' }, ['--runtime: perl → default']],
    [{ restart: true, sshFromGpg: true }, { restart: false }, ['--restart: yes → default']],
    [{ sshAuthSock: '/a', home: '/h' }, {}, []],
    [{ sshAuthSock: '/a' }, { sshAuthSock: '/b' }, ['SSH_AUTH_SOCK: /a → /b']],
    [{ sshFromGpg: true }, { sshAuthSock: '/b' }, []],
    [{ ssh: false }, { sshAuthSock: '/b' }, []],
    [{ gnupgHome: '/a' }, {}, ['GNUPGHOME: /a → default']],
    [{ gnupgHome: '/a' }, { gnupgHome: '/b' }, ['GNUPGHOME: /a → /b']],
  ])('%j and then %j', (before, given, expected) => {
    expect(changes(before, given)).toEqual(expected);
  });

  it('keep the end of their time until another is given', () => {
    const before: BridgeOptions = { for: '2h', until: 'then' };
    expect(mergedOptions(before, { decrypt: false })).toEqual({ ...before, decrypt: false });
    expect(mergedOptions(before, { for: 'none' })).toEqual({ for: 'none' });
    expect(mergedOptions(before, { for: '2h', until: 'later' })).toEqual({ for: '2h', until: 'later' });
  });

  it('have times in one way, and say when they are over', () => {
    expect(withDeadline({ for: '90m', idle: '60m' }, 0)).toEqual({
      for: '1h30m',
      until: '1970-01-01T01:30:00.000Z',
      idle: '1h',
    });
    expect(withDeadline({ for: '1h', until: 'said' }, 0)).toEqual({ for: '1h', until: 'said' });
    expect(withDeadline({ for: 'none', idle: 'none' }, 0)).toEqual({ for: 'none', idle: 'none' });
    expect(() => withDeadline({ for: 'soon' })).toThrow("--for takes no 'soon'");
  });

  it('choose no GPG keys where GPG is not bridged, and keep a choice that was made before', () => {
    const keys = { gpgKeys: ['a'] };
    expect(() => checkKeyChoice({ ...keys, gpg: false })).toThrow('--gpg-key and --no-gpg');
    expect(() => checkKeyChoice(keys, { gpg: false })).toThrow('--no-gpg was given before and holds');
    expect(() => checkKeyChoice(keys, { gpg: false })).toThrow('Leave --gpg-key out.');
    checkKeyChoice({ ...keys, gpg: true }, { gpg: false });
    checkKeyChoice({ gpg: false }, keys);
    expect(mergedOptions({ ...keys, decrypt: false }, { gpg: false })).toEqual({ ...keys, gpg: false });
  });

  it('that exclude each other are refused', () => {
    expect(() => checkOptions({ gpg: false, ssh: false })).toThrow('nothing is left');
    const nothing = { gpg: false, ssh: false };
    expect(() => checkOptions(nothing, nothing)).toThrow(
      'hold, so nothing is left to bridge. Add `--gpg` or',
    );
    expect(() => checkOptions({ ssh: false, sshKeys: ['a'] })).toThrow('--ssh-key and --no-ssh');
    expect(() => checkOptions({ ssh: false, sshFromGpg: true })).toThrow('--ssh-from-gpg and --no-ssh');
    expect(() => checkOptions({ gpg: false, decrypt: false })).toThrow('--no-decrypt and --no-gpg');
    expect(() => checkOptions({ gpg: false, allowPassphrase: true })).toThrow(
      '--allow-passphrase and --no-gpg',
    );
    checkOptions({ ssh: false, sshKeys: [] });
  });

  it.each([
    [{ gpg: false, ssh: false }, { gpg: false }, '--no-gpg', 'Leave --no-ssh out.'],
    [{ gpg: false, ssh: false }, { ssh: false }, '--no-ssh', 'Leave --no-gpg out.'],
    [{ ssh: false, sshKeys: ['a'] }, { ssh: false }, '--no-ssh', 'Leave --ssh-key out.'],
    [{ gpg: false, decrypt: false }, { gpg: false }, '--no-gpg', 'Leave --no-decrypt out.'],
    [
      { ssh: false, sshFromGpg: true },
      { sshFromGpg: true },
      '--ssh-from-gpg',
      'Add `--no-ssh-from-gpg` to take that back.',
    ],
    [
      { gpg: false, allowPassphrase: true },
      { allowPassphrase: true },
      '--allow-passphrase',
      'Add `--no-allow-passphrase` to take that back.',
    ],
  ])('%j of which %j was given before say so, and what to do', (options, before, word, fix) => {
    expect(() => checkOptions(options, before)).toThrow(`${word} was given before and holds`);
    expect(() => checkOptions(options, before)).toThrow(fix);
    expect(() => checkOptions(options, before)).not.toThrow('Leave one of them out');
  });
});
