import { describe, expect, it } from 'vitest';
import type { BridgeOptions } from '../bridge-options.ts';
import { grantOf, grantSentence } from './grant-words.ts';

const BOTH = [{ type: 'gpg-agent' }, { type: 'ssh-agent' }];
const NOON = new Date(2026, 0, 31, 12);

const sentence = (options: BridgeOptions, sockets = BOTH) =>
  grantSentence({ target: 'sandbox', options, sockets }, NOON);

describe('the sentence about what a target may do', () => {
  it.each<[BridgeOptions, string]>([
    [{}, 'sandbox may sign and decrypt with every GPG key and use every SSH key, until `gpg-bridge down`.'],
    [{ gpg: false }, 'sandbox may use no GPG key and every SSH key, until `gpg-bridge down`.'],
    [
      { ssh: false, decrypt: false },
      'sandbox may sign with every GPG key (not decrypt) and use no SSH key, until `gpg-bridge down`.',
    ],
    [
      { gpgKeys: ['ada@example.org', 'bob'], sshKeys: ['SHA256:abc'], user: 'dev', idle: '30m' },
      'sandbox (user dev) may sign and decrypt with ada@example.org, bob and use the SSH key SHA256:abc, until `gpg-bridge down` or 30m without a use.',
    ],
    [
      { sshKeys: ['one', `AAAA${'b'.repeat(60)}cdefghijklmn`], allowPassphrase: true },
      'sandbox may sign and decrypt with every GPG key, use the SSH keys one, …cdefghijklmn and ask you for a passphrase, until `gpg-bridge down`.',
    ],
    [
      {
        gpgKeys: ['KEY'],
        decrypt: false,
        ssh: false,
        confirm: true,
        for: '6h30m',
        until: new Date(2026, 0, 31, 18, 30).toISOString(),
      },
      'sandbox may sign with KEY (not decrypt) and use no SSH key; each use is confirmed; until 18:30.',
    ],
    [
      { notify: true, for: '1d', until: new Date(2026, 1, 1, 9, 5).toISOString() },
      'sandbox may sign and decrypt with every GPG key and use every SSH key; each use is notified; until 2026-02-01 09:05.',
    ],
  ])('says of %j what it allows', (options, expected) => {
    expect(sentence(options)).toBe(expected);
  });

  it('counts an agent without a socket for none, where the bridge is attached', () => {
    expect(sentence({}, [{ type: 'gpg-agent' }])).toContain('use no SSH key');
    expect(sentence({}, [])).toContain('use every SSH key');
  });
});

describe('SSH keys of which another option than --ssh-key leaves some', () => {
  const offers = { sshKeys: [{ fingerprint: 'SHA256:abc', name: 'work' }, { fingerprint: 'SHA256:def' }] };
  const granted = { target: 'sandbox', options: { gpgKeys: ['ada'] }, sockets: BOTH, offers };

  it('are named by what is left of them', () => {
    expect(grantSentence(granted)).toContain('use the SSH keys SHA256:abc (work), SHA256:def,');
    expect(grantOf(granted).sshKeys).toEqual(['SHA256:abc', 'SHA256:def']);
    const both = { ...granted, options: { sshKeys: ['work', 'other'], gpg: false } };
    expect(grantOf(both).sshKeys).toEqual(['SHA256:abc', 'SHA256:def']);
  });

  it('may be none', () => {
    const none = { ...granted, offers: { sshKeys: [] } };
    expect(grantSentence(none)).toContain('use no SSH key,');
    expect(grantOf(none).sshKeys).toEqual([]);
    expect(grantOf({ ...granted, options: { ssh: false } }).sshKeys).toEqual([]);
  });
});

it('what a target may do is data, too', () => {
  expect(
    grantOf({ options: { gpgKeys: ['a'], decrypt: false, idle: 'none', sshKeys: [] }, sockets: BOTH }),
  ).toEqual({
    gpgKeys: ['a'],
    decrypt: false,
    sshKeys: 'all',
    confirm: false,
    notify: false,
    passphrase: false,
    until: null,
    idle: null,
  });
  expect(grantOf({ options: { gpg: false }, sockets: BOTH })).toMatchObject({ gpgKeys: [], decrypt: false });
});
