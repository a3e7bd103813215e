import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { KeyFilter } from '../gnupg/key-filter.ts';
import { exportPublicKeys } from './public-keys.ts';

let host: GnupgHome;
/** Fingerprints: `own` has its secret here, `card` a stub for a smart card, `offline` only a secret subkey. */
const keys = { own: '', card: '', offline: '', foreign: '' };

const CARD = 'D2760001240102000006012345670000';

beforeAll(async () => {
  host = await GnupgHome.create();
  await writeFile(join(host.dir, 'gpg.conf'), 'armor\n'); // must not change what is exported
  keys.own = await host.createKey('Own <own@example.org>');
  keys.card = await host.createKey('Card <card@example.org>');
  await moveToCard(keys.card);
  keys.offline = await host.createKey('Offline <offline@example.org>');
  await host.addEncryptionKey(keys.offline);
  await rm(await secretFile(keys.offline));

  const other = await GnupgHome.create();
  try {
    keys.foreign = await other.createKey('Foreign <foreign@example.org>');
    const armored = await other.gpgOk(['--armor', '--export', keys.foreign]);
    await host.gpgOk(['--import'], { input: armored });
  } finally {
    await other.remove();
  }
  await host.killAgent();
});
afterAll(() => host.remove());

/** What a fresh keyring holds after the export was imported there. */
async function imported(bytes: Buffer): Promise<string[]> {
  const target = await GnupgHome.create();
  onTestFinished(() => target.remove());
  await target.gpgOk(['--import'], { input: bytes });
  const listing = await target.gpgOk(['--with-colons', '--list-keys']);
  return [...listing.matchAll(/^pub:.*\n(?:fpr:+)([0-9A-F]+):/gm)].map((match) => match[1]!);
}

function sorted(...fingerprints: string[]): string[] {
  return fingerprints.toSorted();
}

test('pairs: the keys whose secret half is here, on a card, or partly offline', async () => {
  const exported = await exportPublicKeys('pairs', host);
  expect(exported.count).toBe(3);
  expect(sorted(...exported.trust)).toEqual(sorted(keys.own, keys.card, keys.offline));
  expect(sorted(...(await imported(exported.keys)))).toEqual(sorted(keys.own, keys.card, keys.offline));
});

test('all: foreign keys too, which get no trust', async () => {
  const exported = await exportPublicKeys('all', host);
  expect(exported.count).toBe(4);
  expect(sorted(...exported.trust)).toEqual(sorted(keys.own, keys.card, keys.offline));
  expect(sorted(...(await imported(exported.keys)))).toEqual(sorted(...Object.values(keys)));
});

test('a list: what it names, by whatever name gpg knows', async () => {
  const exported = await exportPublicKeys(['own@example.org', keys.foreign], host);
  expect(exported).toMatchObject({ count: 2, trust: [keys.own] });
  expect(sorted(...(await imported(exported.keys)))).toEqual(sorted(keys.own, keys.foreign));
});

test('an address is one as a whole, and a revoked key gets no trust', async () => {
  const home = await GnupgHome.create();
  onTestFinished(() => home.remove());
  const ed = await home.createKey('Ed <ed@example.com>');
  const revoked = await home.createKey('Revoked <revoked@example.com>');
  expect(await exportPublicKeys(['ed@example.com'], home)).toMatchObject({ count: 1, trust: [ed] });
  await expect(exportPublicKeys(['d@example.com'], home)).rejects.toMatchObject({
    why: 'gpg knows no public key "d@example.com"',
  });
  await home.revokeKey(revoked);
  expect(await exportPublicKeys('pairs', home)).toMatchObject({ count: 2, trust: [ed] });
  expect(await exportPublicKeys([revoked], home)).toMatchObject({ count: 1, trust: [] });
});

test('none, an empty list and an empty keyring give nothing', async () => {
  const nothing = { keys: Buffer.alloc(0), trust: [], count: 0 };
  expect(await exportPublicKeys('none', { gpgBinDir: '/nowhere' })).toEqual(nothing);
  expect(await exportPublicKeys([], host)).toEqual(nothing);
  const empty = await GnupgHome.create();
  onTestFinished(() => empty.remove());
  for (const filter of ['pairs', 'all'] as const)
    expect(await exportPublicKeys(filter, empty)).toEqual(nothing);
});

test.each<[string, KeyFilter, string]>([
  [
    'an unknown one',
    ['own@example.org', 'nobody@example.org'],
    'gpg knows no public key "nobody@example.org"',
  ],
  ['an option', ['--armor'], 'gpg knows no public key "--armor"'],
  ['an empty one', [''], 'a key name is empty, too long or has control characters in it'],
  ['a line break', ['a\nb'], 'a key name is empty, too long or has control characters in it'],
  ['a novel', ['x'.repeat(300)], 'a key name is empty, too long or has control characters in it'],
])('a name that is %s is an error', async (_, filter, why) => {
  await expect(exportPublicKeys(filter, host)).rejects.toMatchObject({ code: 'KEY_EXPORT_FAILED', why });
});

test('a gpg that is missing, can not start, or fails is said', async () => {
  const gpgBinDir = await tempDir();
  await expect(exportPublicKeys('all', { gpgBinDir })).rejects.toMatchObject({ code: 'GPG_MISSING' });
  await writeScript(gpgBinDir, 'gpg', 'case "$*" in *--export*) echo "gpg: no space" >&2; exit 2 ;; esac');
  await expect(exportPublicKeys('all', { gpgBinDir })).rejects.toMatchObject({
    code: 'KEY_EXPORT_FAILED',
    why: 'it ended with status 2, saying "gpg: no space"',
  });
  await writeScript(gpgBinDir, 'gpg', 'kill -9 $$');
  await expect(exportPublicKeys('all', { gpgBinDir })).rejects.toMatchObject({
    why: 'it was ended by SIGKILL',
  });
  await writeFile(join(gpgBinDir, 'gpg'), '#!/nowhere/sh\n');
  await expect(exportPublicKeys('all', { gpgBinDir })).rejects.toMatchObject({ code: 'KEY_EXPORT_FAILED' });
});

async function secretFile(fingerprint: string): Promise<string> {
  const listing = await host.gpgOk(['--with-colons', '--with-keygrip', '--list-secret-keys', fingerprint]);
  const keygrip = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1];
  return join(host.dir, 'private-keys-v1.d', `${keygrip}.key`);
}

/** Replaces an Ed25519 secret by the stub that gpg-agent keeps for a key on an OpenPGP card. */
async function moveToCard(fingerprint: string): Promise<void> {
  const file = await secretFile(fingerprint);
  const point = /\(q\s+(#[0-9A-F]+#)\)/.exec(await readFile(file, 'latin1'))![1];
  await writeFile(
    file,
    `Key: (shadowed-private-key (ecc (curve Ed25519)(flags eddsa)(q ${point})
 (shadowed t1-v1 (#${CARD}# OPENPGP.1))))\n`,
  );
  const listing = await host.gpgOk(['--with-colons', '--list-secret-keys', fingerprint]);
  if (!listing.includes(CARD)) throw new Error(`no card stub:\n${listing}`);
}
