import { describe, expect, it } from 'vitest';
import { type BridgeOptions, checkOptions, mergedOptions, optionChanges } from './bridge-options.ts';

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
    [{ sshKeys: ['a'] }, { sshKeys: [] }, ['--ssh-key: a → default']],
    [{ gpg: false }, { gpg: true }, ['--gpg: no → yes']],
    [{ keys: ['a', 'b'] }, { keys: 'all' }, ['--keys: a,b → all']],
    [{ runtime: 'perl' }, { runtime: 'auto' }, ['--runtime: perl → default']],
    [{ restart: true, sshFromGpg: true }, { restart: false }, ['--restart: yes → default']],
    // Without GNUPGHOME, GnuPG's own home is meant; without SSH_AUTH_SOCK nothing is said.
    [{ gnupgHome: '/a', sshAuthSock: '/s' }, {}, ['GNUPGHOME: /a → default']],
    [{ gnupgHome: '/a' }, { gnupgHome: '/b' }, ['GNUPGHOME: /a → /b']],
    [{ sshAuthSock: '/s', home: '/h' }, {}, []],
    [{ sshAuthSock: '/s' }, { sshAuthSock: '/t' }, ['SSH_AUTH_SOCK: /s → /t']],
    [{ sshFromGpg: true }, { sshAuthSock: '/t' }, []],
    [{ ssh: false }, { sshAuthSock: '/t' }, []],
  ])('%j and then %j', (before, given, expected) => {
    expect(changes(before, given)).toEqual(expected);
  });

  it('that exclude each other are refused', () => {
    expect(() => checkOptions({ gpg: false, ssh: false })).toThrow('nothing is left');
    expect(() => checkOptions({ ssh: false, sshKeys: ['a'] })).toThrow('--ssh-key and --no-ssh');
    expect(() => checkOptions({ ssh: false, sshFromGpg: true })).toThrow('--ssh-from-gpg and --no-ssh');
    checkOptions({ ssh: false, sshKeys: [] });
  });
});
