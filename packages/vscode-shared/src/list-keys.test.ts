import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { describe, expect, it, onTestFinished } from 'vitest';
import { flawsOf, listHostKeys } from './list-keys.ts';

describe('listHostKeys', () => {
  it("lists what a real gpg has, one's own keys first, with the keygrips of all subkeys", async () => {
    const mine = await GnupgHome.create();
    onTestFinished(() => mine.remove());
    const fingerprint = await mine.createKey('Zoe Own: signs <zoe@example.org>');
    await mine.addEncryptionKey(fingerprint);
    const other = await GnupgHome.create();
    onTestFinished(() => other.remove());
    const theirs = await other.createKey('Alice Other <alice@example.org>');
    await mine.gpgOk(['--import'], { input: await other.gpgOk(['--armor', '--export']) });

    const keys = await listHostKeys({ env: mine.env });
    expect(keys).toMatchObject([
      { fingerprint, userId: 'Zoe Own: signs <zoe@example.org>', secret: true },
      { fingerprint: theirs, userId: 'Alice Other <alice@example.org>', secret: false },
    ]);
    expect(keys[0]?.keygrips).toHaveLength(2);
    const grips = await mine.gpgOk(['--with-keygrip', '--list-keys', fingerprint]);
    for (const keygrip of keys[0]?.keygrips ?? []) expect(grips).toContain(keygrip);
  });

  it('tells which keys are expired and which are revoked', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    const good = await home.createKey('Good <good@example.org>');
    const expired = await home.createKey('Old <old@example.org>', { expired: true });
    const revoked = await home.createKey('Taken Back <back@example.org>');
    await home.revokeKey(revoked);
    const keys = await listHostKeys({ env: home.env });
    const byFingerprint = Object.fromEntries(keys.map((key) => [key.fingerprint, flawsOf(key)]));
    expect(byFingerprint).toEqual({ [good]: [], [expired]: ['expired'], [revoked]: ['revoked'] });
  });

  it('lists nothing of an empty keyring', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    expect(await listHostKeys({ env: home.env })).toEqual([]);
  });

  it('says so when gpg is not there', async () => {
    await expect(listHostKeys({ gpgBinDir: '/nowhere' })).rejects.toThrow(
      expect.objectContaining({ code: 'GPG_MISSING' }),
    );
  });
});
