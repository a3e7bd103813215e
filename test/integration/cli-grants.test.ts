import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { talk } from '@gpg-bridge/test-support/talk';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** The keygrips of a key and its subkeys. */
async function keygrips(home: GnupgHome, fingerprint: string): Promise<string[]> {
  const listing = await home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
  return [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].map(([, grip]) => grip!);
}

/** Somebody with two keys, each of which can sign and decrypt. */
async function personWithTwoKeys() {
  const person = await Person.create();
  const other = await person.home.createKey('Bob Test <bob@example.org>');
  for (const key of [person.fingerprint, other]) await person.home.addEncryptionKey(key);
  const target = await person.localHome();
  const up = (...options: string[]) => person.ok('up', `local:${target.dir}`, ...options);
  const signWith = (key: string) => target.gpg(['-u', key, '--clear-sign'], { input: 'text' });
  const encryptedFor = (key: string) =>
    person.home.gpgOk(['--trust-model', 'always', '--armor', '-r', key, '--encrypt'], { input: 'secret' });
  return { person, other, target, up, signWith, encryptedFor, socket: `${target.dir}/S.gpg-agent` };
}

describe('--gpg-key', () => {
  it('lets a target use that key with its subkeys, and no other', async () => {
    const { person, other, target, up, signWith, encryptedFor } = await personWithTwoKeys();
    await up('--gpg-key', 'ada@example.org');
    expect((await signWith('ada@example.org')).status).toBe(0);
    const refused = await signWith('bob@example.org');
    expect(refused.status).not.toBe(0);
    expect(refused.stderr).toMatch(/No secret key/);
    expect(await target.gpgOk(['--decrypt'], { input: await encryptedFor(person.fingerprint) })).toBe(
      'secret',
    );
    const sealed = await target.gpg(['--decrypt'], { input: await encryptedFor(other) });
    expect(sealed.stderr).toMatch(/No secret key/);
    // Without -u gpg takes the first key that its agent has.
    await up('--gpg-key', other);
    const signed = await target.gpg(['--clear-sign'], { input: 'text' });
    expect((await target.gpg(['--verify'], { input: signed.stdout })).stderr).toMatch(/bob@example.org/);
    // What was said holds until it is changed by name.
    await up();
    expect((await signWith('ada@example.org')).status).not.toBe(0);
    const [status] = await person.json<{ options: { gpgKeys: string[] } }[]>('status');
    expect(status!.options.gpgKeys).toEqual([other]);
    await up('--gpg-key', 'all');
    expect((await signWith('ada@example.org')).status).toBe(0);
  });

  it('holds for every client, whatever the case of its words and the order of its keys', async () => {
    const { person, other, up, socket } = await personWithTwoKeys();
    const [mine, mineToo] = await keygrips(person.home, person.fingerprint);
    const [others, othersToo] = await keygrips(person.home, other);
    await up('--gpg-key', person.fingerprint);
    const ask = async (text: string) =>
      (await talk(socket, `${text}\nBYE\n`)).split('\n').slice(1, -2).join('\n');
    expect(await ask(`HAVEKEY ${others}`)).toMatch(/^ERR 67108881 No secret key/);
    expect(await ask(`havekey ${others} ${othersToo}`)).toMatch(/^ERR 67108881 No secret key/);
    expect(await ask(`HAVEKEY ${others} ${mineToo}`)).toBe('OK');
    expect(await ask(`HAVEKEY ${mine}`)).toBe('OK');
    const hash = `SETHASH 8 ${'00'.repeat(32)}`;
    expect(await ask(`SIGKEY ${others}\n${hash}\npksign`)).toMatch(/^OK\nOK\nERR 67108881 No secret key/);
    expect(await ask(`setkey ${mine}\nSIGKEY ${othersToo}\n${hash}\nPKSIGN`)).toMatch(/\nERR 67108881/);
    expect(await ask(`SIGKEY ${mine}\n${hash}\nPKSIGN`)).toMatch(/\nD \(7:sig-val/);
    // What a client asked lately is asked for the next one in the same words, and decided about alike.
    for (const spelling of [`havekey ${others}`, `HaveKey ${othersToo}`]) {
      expect(await ask(spelling)).toMatch(/^ERR 67108881 No secret key/);
      const client = await TestClient.connect(socket);
      await client.reads('OK');
      client.write('NOP\n');
      await client.reads('\nOK\n');
      client.write(`${spelling}\nGETINFO version\n`);
      expect(await client.reads('\nD ')).toMatch(/\nOK\nERR 67108881 No secret key/);
    }
    // A keygrip stands for that key alone.
    await up('--gpg-key', mineToo!);
    expect(await ask(`HAVEKEY ${mine}`)).toMatch(/^ERR 67108881 No secret key/);
    expect(await ask(`HAVEKEY ${mineToo}`)).toBe('OK');
    const log = await person.json<{ command: string; outcome: string }[]>(
      'log',
      `local:${socket.slice(0, -12)}`,
    );
    expect(log.filter(({ command }) => command === 'PKSIGN').map(({ outcome }) => outcome)).toEqual([
      'refused',
      'refused',
      'ok',
    ]);
  });

  it('that is not there fails, and says which are', async () => {
    const { person, target } = await personWithTwoKeys();
    const up = (...options: string[]) => person.run(['up', `local:${target.dir}`, ...options]);
    const failed = await up('--gpg-key', 'eve@example.org');
    expect(failed.status).toBe(1);
    expect(failed.stderr).toMatch(/eve@example\.org.*It has [0-9A-F]{40} \(Ada Test <ada@example\.org>\), /);
    expect(failed.stderr.trim().split('\n')).toHaveLength(1);
    const both = await up('--gpg-key', 'ada@example.org', '--no-gpg');
    expect(both.status).toBe(2);
    expect(both.stderr).toMatch(/--gpg-key and --no-gpg exclude each other/);
  });
});

describe('--no-decrypt', () => {
  it('lets a target sign and not decrypt, until --decrypt', async () => {
    const { person, target, up, signWith, encryptedFor } = await personWithTwoKeys();
    const sealed = await encryptedFor(person.fingerprint);
    await up('--no-decrypt');
    expect((await signWith(person.fingerprint)).status).toBe(0);
    const refused = await target.gpg(['--decrypt'], { input: sealed });
    expect(refused.status).not.toBe(0);
    expect(refused.stderr).toMatch(/Forbidden|No secret key/);
    await up();
    expect((await target.gpg(['--decrypt'], { input: sealed })).status).not.toBe(0);
    expect(await up('--decrypt')).toMatch(/--decrypt: no → default/);
    expect(await target.gpgOk(['--decrypt'], { input: sealed })).toBe('secret');
  });
});

describe('up', () => {
  it('says how many keys it offers, and how to offer fewer', async () => {
    const { person, target, up } = await personWithTwoKeys();
    const agent = await startSshAgent();
    await agent.addKey('one');
    await agent.addKey('two');
    person.env.SSH_AUTH_SOCK = agent.socketPath;
    expect(await up()).toMatch(
      /^ {2}keys 2 GPG keys, 2 SSH keys; offer fewer with --gpg-key and --ssh-key$/m,
    );
    expect(await up('--gpg-key', 'ada@example.org', '--ssh-key', 'two')).toMatch(
      /^ {2}keys 1 GPG key, 1 SSH key$/m,
    );
    const info = await person.json<{ offers: object }>(
      'up',
      `local:${target.dir}`,
      '--no-ssh',
      '--ssh-key',
      'all',
    );
    expect(info.offers).toEqual({ gpg: 1, ssh: null, canSign: true });
  });
});

describe('--notify', () => {
  it('shows a notice of the desktop at each use', async () => {
    const { person, up, signWith } = await personWithTwoKeys();
    const dir = await tempDir();
    await writeScript(dir, 'notify-send', `for word; do echo "$word"; done >> "${dir}/shown"`);
    person.env.PATH = `${dir}:${person.env.PATH}`;
    await up('--notify');
    expect((await signWith('ada@example.org')).status).toBe(0);
    await expect
      .poll(() => readFile(join(dir, 'shown'), 'utf8').catch(() => ''))
      .toMatch(/^local:\S+: a signature with your GPG key of Ada Test &lt;ada@example\.org&gt;$/m);
  });

  it('is a warning where the desktop shows none', async () => {
    const { person, up, signWith } = await personWithTwoKeys();
    const dir = await tempDir();
    await writeScript(dir, 'notify-send', 'echo no desktop here >&2; exit 1');
    person.env.PATH = `${dir}:${person.env.PATH}`;
    await up('--notify');
    for (let n = 0; n < 2; n++) expect((await signWith('ada@example.org')).status).toBe(0);
    const log = () => readFile(`${person.stateDir}/${logName}`, 'utf8');
    const logName = (await person.files()).find((name) => name.endsWith('.log'))!;
    await expect
      .poll(log)
      .toMatch(/a notice was not shown: notify-send does not work here .*no desktop here/);
    expect((await log()).match(/a notice was not shown/g)).toHaveLength(1);
  });
});
