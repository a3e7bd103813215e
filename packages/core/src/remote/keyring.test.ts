import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { makeOpenPgpKey } from '@gpg-bridge/test-support/openpgp-keys';
import { run } from '@gpg-bridge/test-support/process';
import { answerOk, gnupgHome, listen, modeOf } from '@gpg-bridge/test-support/target-listener';
import { describe, expect, test } from 'vitest';
import { DirectOperations } from './direct-operations.ts';
import { hasPrivateKeys, importPublicKeys } from './keyring.ts';

/** A host's home with two keys, exported. */
async function hostWithKeys() {
  const host = await gnupgHome();
  const fingerprints = [
    await host.createKey('Ann <ann@example.org>'),
    await host.createKey('Bob <bob@example.org>'),
  ];
  const keys = (await host.gpg(['--export'])).stdout;
  return { host, keys, ann: fingerprints[0]!, bob: fingerprints[1]! };
}

/** What gpg itself says is in the keyring, without an agent. */
async function fingerprintsIn(home: GnupgHome): Promise<string[]> {
  const listing = await home.gpgOk(['--no-autostart', '--with-colons', '--list-keys']);
  return [...listing.matchAll(/^pub:.*\nfpr:{9}([0-9A-F]+):/gm)]
    .map(([, fingerprint]) => fingerprint!)
    .sort();
}

async function ownertrust(home: GnupgHome): Promise<string[]> {
  const listing = await home.gpgOk(['--no-autostart', '--export-ownertrust']);
  return listing
    .split('\n')
    .filter((line) => /^[0-9A-F]/.test(line))
    .sort();
}

describe('importing', () => {
  test('adds keys, and counts what was added, updated and unchanged', async () => {
    const { host, keys, ann, bob } = await hostWithKeys();
    const target = await gnupgHome();
    expect(await importPublicKeys({ keys, trust: [] }, new DirectOperations(target))).toEqual({
      added: 2,
      updated: 0,
      unchanged: 0,
    });
    expect(await fingerprintsIn(target)).toEqual([ann, bob].sort());
    expect(await ownertrust(target)).toEqual([]);

    await host.gpgOk(['--quick-add-uid', ann, 'Ann at work <ann@work.example>']);
    await host.createKey('Cleo <cleo@example.org>');
    const later = (await host.gpg(['--export'])).stdout;
    expect(await importPublicKeys({ keys: later, trust: [] }, new DirectOperations(target))).toEqual({
      added: 1,
      updated: 1,
      unchanged: 1,
    });
  });

  test('keeps every key and every trust that was there, and every other file byte for byte', async () => {
    const { keys, ann, bob } = await hostWithKeys();
    const target = await gnupgHome();
    const own = await target.createKey('Own <own@example.org>');
    await target.gpgOk(['--import-ownertrust'], { input: `${bob}:4:\n` });
    await target.killAgent();
    const confs = { 'gpg.conf': '# mine\nno-greeting\n', 'gpg-agent.conf': '# mine too\n' };
    for (const [name, text] of Object.entries(confs)) await writeFile(join(target.dir, name), text);
    const privateKeys = join(target.dir, 'private-keys-v1.d');
    const [keyFile] = await readdir(privateKeys);
    const secret = await readFile(join(privateKeys, keyFile!));
    const before = await readdir(target.dir);

    await importPublicKeys({ keys, trust: [ann] }, new DirectOperations(target));
    expect(await fingerprintsIn(target)).toEqual([own, ann, bob].sort());
    expect(await ownertrust(target)).toEqual([`${own}:6:`, `${ann}:6:`, `${bob}:4:`].sort());
    for (const [name, text] of Object.entries(confs))
      expect(await readFile(join(target.dir, name), 'utf8')).toBe(text);
    expect(await readdir(privateKeys)).toEqual([keyFile]);
    expect(await readFile(join(privateKeys, keyFile!))).toEqual(secret);
    expect(await readdir(target.dir)).toEqual(before);
  });

  test('trusts the listed keys ultimately, again without a change, and never against the user', async () => {
    const { keys, ann, bob } = await hostWithKeys();
    const target = await gnupgHome();
    await target.gpgOk(['--import-ownertrust'], { input: `${bob}:3:\n` });
    for (let time = 0; time < 2; time++) {
      await importPublicKeys({ keys, trust: [ann, bob] }, new DirectOperations(target));
      expect(await ownertrust(target)).toEqual([`${ann}:6:`, `${bob}:3:`].sort());
    }
  });

  test('makes a home that is missing, for its owner alone', async () => {
    const { keys, ann } = await hostWithKeys();
    const target = await gnupgHome();
    const dir = join(target.dir, 'new', 'home');
    const env = { ...target.env, GNUPGHOME: dir };
    expect(await importPublicKeys({ keys, trust: [ann] }, new DirectOperations({ env }))).toMatchObject({
      added: 2,
    });
    expect(await modeOf(dir)).toBe('700');
    const listing = await target.gpgOk(['--no-autostart', '--with-colons', '--list-keys', ann], { env });
    expect(listing).toMatch(/^pub:u:/m);
  });

  test('uses an old-format keyring where that is what the user has', async () => {
    const { keys } = await hostWithKeys();
    const target = await gnupgHome();
    await writeFile(join(target.dir, 'pubring.gpg'), '');
    await importPublicKeys({ keys, trust: [] }, new DirectOperations(target));
    expect(await readdir(target.dir)).not.toContain('pubring.kbx');
    expect(await fingerprintsIn(target)).toHaveLength(2);
  });

  test('uses the keyring that the user’s gpg.conf names', async () => {
    const { keys } = await hostWithKeys();
    const target = await gnupgHome();
    await writeFile(join(target.dir, 'gpg.conf'), 'no-default-keyring\nkeyring mine.kbx\n');
    expect(await importPublicKeys({ keys, trust: [] }, new DirectOperations(target))).toMatchObject({
      added: 2,
    });
    expect(await readdir(target.dir)).toContain('mine.kbx');
    expect(await fingerprintsIn(target)).toHaveLength(2);
  });

  test('takes several megabytes', async () => {
    const longName = (n: number, id: number) => `User ${n}.${id} ${'x'.repeat(1_900)} <u${n}@example.org>`;
    const many = Array.from({ length: 150 }, (_, n) =>
      makeOpenPgpKey(Array.from({ length: 10 }, (_, id) => longName(n, id))),
    );
    const keys = Buffer.concat(many.map(({ packets }) => packets));
    expect(keys.length).toBeGreaterThan(3_000_000);
    const target = await gnupgHome();
    const trust = many.map(({ fingerprint }) => fingerprint);
    expect(await importPublicKeys({ keys, trust }, new DirectOperations(target))).toEqual({
      added: 150,
      updated: 0,
      unchanged: 0,
    });
    expect(await fingerprintsIn(target)).toEqual([...trust].sort());
    expect(await ownertrust(target)).toHaveLength(150);
  });

  test('starts no agent and says nothing to the socket that the bridge listens on', async () => {
    const { keys, ann } = await hostWithKeys();
    const target = await gnupgHome();
    const path = await target.socket('agent-socket');
    let clients = 0;
    const counted = (socket: Parameters<typeof answerOk>[0]) => {
      clients++;
      answerOk(socket);
    };
    const listener = await listen(path, { onConnection: counted });
    await importPublicKeys({ keys, trust: [ann] }, new DirectOperations(target));
    expect(clients).toBe(0);
    await listener.close();
    const absent = await gnupgHome();
    await importPublicKeys({ keys, trust: [ann] }, new DirectOperations(absent));
    for (const home of [target, absent]) {
      const asked = await run('gpg-connect-agent', ['--no-autostart', '/bye'], { env: home.env });
      expect(asked.stderr).toContain('no gpg-agent running');
      expect((await readdir(home.dir)).filter((name) => name.startsWith('S.'))).toEqual([]);
    }
  });

  test('does nothing for nothing', async () => {
    const target = await gnupgHome();
    const nothing = { keys: Buffer.alloc(0), trust: [] };
    expect(await importPublicKeys(nothing, new DirectOperations(target))).toEqual({
      added: 0,
      updated: 0,
      unchanged: 0,
    });
    expect(await readdir(target.dir)).toEqual([]);
  });

  test.for([
    ['no keys at all', { keys: Buffer.from('these are no keys'), trust: [] }, /no valid OpenPGP data/],
    ['a trust that is no fingerprint', { keys: Buffer.alloc(0), trust: ['AB:6:\nCD'] }, /not a fingerprint/],
  ] as const)('%s is an error', async ([, request, why]) => {
    const target = await gnupgHome();
    await expect(importPublicKeys(request, new DirectOperations(target))).rejects.toMatchObject({
      code: 'KEY_IMPORT_FAILED',
      message: expect.stringMatching(why),
    });
  });

  test('a home that can not be made is an error', async () => {
    const target = await gnupgHome();
    await writeFile(join(target.dir, 'file'), '');
    const env = { ...target.env, GNUPGHOME: join(target.dir, 'file', 'home') };
    await expect(
      importPublicKeys({ keys: Buffer.from('x'), trust: [] }, new DirectOperations({ env })),
    ).rejects.toMatchObject({
      code: 'KEY_IMPORT_FAILED',
    });
  });

  test('a keyring that was cut off gives what was whole in it', async () => {
    const keys = ['One', 'Two', 'Three'].map((name) => makeOpenPgpKey([`${name} <${name}@example.org>`]));
    const target = await gnupgHome();
    const cut = Buffer.concat(keys.map(({ packets }) => packets)).subarray(0, -80);
    const { added } = await importPublicKeys({ keys: cut, trust: [] }, new DirectOperations(target));
    expect(added).toBeGreaterThanOrEqual(1);
    expect(await fingerprintsIn(target)).toContain(keys[0]!.fingerprint);
  });
});

describe('private keys of the target', () => {
  test('are seen without an agent', async () => {
    const target = await gnupgHome();
    expect(await hasPrivateKeys(new DirectOperations(target))).toBe(false);
    await mkdir(join(target.dir, 'private-keys-v1.d'));
    expect(await hasPrivateKeys(new DirectOperations(target))).toBe(false);
    await target.createKey('Own <own@example.org>');
    await target.killAgent();
    expect(await hasPrivateKeys(new DirectOperations(target))).toBe(true);
    const asked = await run('gpg-connect-agent', ['--no-autostart', '/bye'], { env: target.env });
    expect(asked.stderr).toContain('no gpg-agent running');
  });
});
