import { copyFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CIPHERTEXT } from '@gpg-bridge/test-support/ciphertext';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { runOk } from '@gpg-bridge/test-support/process';
import { RecordingRelay } from '@gpg-bridge/test-support/recording-relay';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Operation } from '../assuan/operation.ts';
import { parseCertifiedKeys, parseX509Keys } from '../gnupg/certificate-usage.ts';
import { AgentProxy } from './agent-proxy.ts';
import type { GpgGrant } from './gpg-grant.ts';
import { joinUsages, KeyUsages } from './key-usages.ts';
import type { KeyUse } from './key-use-record.ts';
import { PromptPace } from './prompt-pace.ts';

const HASH = 'SETHASH --hash=sha256 '.concat('AB'.repeat(32));
const PASSPHRASE = ['--pinentry-mode', 'loopback', '--passphrase', ''];
const FORBIDDEN = /^ERR 67109115 Forbidden <GPG Agent> - /;

/** The keygrips of a certificate's keys, the primary one first. */
async function grips(home: GnupgHome, name: string): Promise<string[]> {
  const listing = await home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', name]);
  return [...listing.matchAll(/^grp:+([0-9A-F]{40}):/gm)].map(([, grip]) => grip!);
}

async function addSubkey(home: GnupgHome, fingerprint: string, usage: string): Promise<void> {
  await home.gpgOk([...PASSPHRASE, '--quick-add-key', fingerprint, 'rsa2048', usage, 'never']);
}

/** Makes a certificate that has another one's key as its encryption subkey. */
async function bindAsEncryptionKey(home: GnupgHome, grip: string, name: string): Promise<void> {
  const fingerprint = await home.createKey(name, { usage: 'cert' });
  await home.gpgOk(['--expert', ...PASSPHRASE, '--command-fd', '0', '--edit-key', fingerprint], {
    input: `addkey\n13\n${grip}\n=e\n0\nsave\n`,
  });
}

describe('through the restricted socket of a real gpg-agent', () => {
  let home: GnupgHome;
  /** Usual keys: to sign and certify, to decrypt, to log in. */
  let [signing, decrypting, loggingIn]: string[] = [];
  /** One key for everything, and one that signs and logs in. */
  let everything: string;
  let signsAndLogsIn: string;
  /** Signing keys of which another certificate says that they decrypt. */
  let rebound: string;
  let reboundExpired: string;
  let reboundRevoked: string;
  /** No certificate has it. */
  let nameless: string;
  /** A signing key that is in sshcontrol. */
  let inSshControl: string;

  beforeAll(async () => {
    home = await GnupgHome.create('enable-ssh-support\n');
    const usual = await home.createKey('Usual <usual@example.org>', { algo: 'rsa2048', usage: 'sign,cert' });
    await addSubkey(home, usual, 'encr');
    await addSubkey(home, usual, 'auth');
    [signing, decrypting, loggingIn] = await grips(home, usual);
    const made = async (name: string, options: { usage?: string; expired?: boolean } = {}) => {
      const fingerprint = await home.createKey(name, { algo: 'rsa2048', usage: 'sign,cert', ...options });
      return { fingerprint, grip: (await grips(home, fingerprint))[0]! };
    };
    ({ grip: everything } = await made('Every <every@example.org>', { usage: 'sign,cert,encr,auth' }));
    ({ grip: signsAndLogsIn } = await made('Both <both@example.org>', { usage: 'sign,cert,auth' }));
    ({ grip: inSshControl } = await made('Control <control@example.org>'));
    await writeFile(join(home.dir, 'sshcontrol'), `${inSshControl} 0\n`);
    ({ grip: rebound } = await made('Rebound <rebound@example.org>'));
    ({ grip: reboundExpired } = await made('Expired <expired@example.org>', { expired: true }));
    const revoked = await made('Revoked <revoked@example.org>');
    reboundRevoked = revoked.grip;
    await home.revokeKey(revoked.fingerprint);
    for (const [index, grip] of [rebound, reboundExpired, reboundRevoked].entries()) {
      await bindAsEncryptionKey(home, grip, `Stranger ${index} <s${index}@example.net>`);
    }
    const other = await GnupgHome.create();
    try {
      const name = await other.createKey('Nameless <nameless@example.org>', { algo: 'rsa2048' });
      nameless = (await grips(other, name))[0]!;
      const file = join('private-keys-v1.d', `${nameless}.key`);
      await copyFile(join(other.dir, file), join(home.dir, file));
    } finally {
      await other.remove();
    }
    await home.killAgent();
    await home.launchAgent();
  }, 120_000);

  afterAll(() => home.remove());

  /** Runs commands under a grant; with what the agent got, and what was logged and recorded. */
  async function session(grant: GpgGrant) {
    await mkdir(join(home.dir, 'relays'), { recursive: true });
    const socketPath = join(home.dir, 'relays', `S.${Math.random().toString(36).slice(2, 8)}`);
    const relay = await RecordingRelay.listen(socketPath, await home.socket('agent-extra-socket'));
    const operations: Operation[] = [];
    const uses: KeyUse[] = [];
    const record = {
      begin(use: KeyUse) {
        uses.push(use);
        return { finish: () => {} };
      },
    };
    const usages = new KeyUsages({ env: home.env });
    const proxy = new AgentProxy({
      env: home.env,
      socketPath,
      use: { pace: new PromptPace(), record, grant, usages },
      onOperation: (_session, operation) => operations.push(operation),
    });
    const { sessionId } = await proxy.connectAgent();
    const send = async (block: string) => (await proxy.sendCommands(sessionId, block)).response;
    onTestFinished(() => proxy.stop());
    return {
      operations,
      uses,
      async sign(grip: string) {
        await send('RESET\n');
        await send(`SIGKEY ${grip}\n`);
        await send(`${HASH}\n`);
        return send('PKSIGN\n');
      },
      async decryptRaw(grip: string) {
        await send('RESET\n');
        await send(`SETKEY ${grip}\n`);
        const answer = await send('PKDECRYPT\n');
        return answer.includes('INQUIRE CIPHERTEXT') ? send(`D ${CIPHERTEXT}\nEND\n`) : answer;
      },
      /** All that the agent was sent. */
      async sent() {
        await proxy.stop();
        return (await relay.take()).map(({ sent }) => sent).join('');
      },
    };
  }

  const NO_SIGNING = { sign: false };
  const NO_SSH = { login: false };

  it('a key that signs decrypts nothing where the target may not sign, and the agent never gets it', async () => {
    const { decryptRaw, sent, operations } = await session(NO_SIGNING);
    for (const grip of [signing!, everything, signsAndLogsIn]) {
      expect(await decryptRaw(grip)).toMatch(FORBIDDEN);
    }
    expect(await decryptRaw(decrypting!)).toMatch(/^(S .*\n)*D .*\nOK\n$/s);
    const refused = operations.filter(({ outcome }) => outcome === 'refused');
    expect(refused.map(({ command, key }) => `${command} ${key}`)).toEqual([
      `PKDECRYPT ${signing}`,
      `PKDECRYPT ${everything}`,
      `PKDECRYPT ${signsAndLogsIn}`,
    ]);
    expect(refused.map(({ note }) => note)).toEqual([
      'that key does not decrypt',
      'that key can also sign, which this target may not',
      'that key does not decrypt',
    ]);
    expect((await sent()).match(/^PKDECRYPT$/gm)).toHaveLength(1);
  });

  it('a key that logs in signs nothing where the target may not log in, and the agent never gets it', async () => {
    const { sign, sent, operations } = await session(NO_SSH);
    for (const grip of [loggingIn!, signsAndLogsIn, everything, inSshControl]) {
      expect(await sign(grip)).toMatch(FORBIDDEN);
    }
    expect(await sign(signing!)).toMatch(/^D .*\nOK\n$/s);
    expect(operations.filter(({ outcome }) => outcome === 'refused').map(({ note }) => note)).toEqual([
      'that key can log in over SSH, which this target may not',
      'that key can also log in over SSH, which this target may not',
      'that key can also log in over SSH, which this target may not',
      'that key can also log in over SSH, which this target may not',
    ]);
    expect((await sent()).match(/^PKSIGN$/gm)).toHaveLength(1);
  });

  it('a signing key stays one that another certificate calls an encryption key', async () => {
    const { decryptRaw, sent } = await session(NO_SIGNING);
    for (const grip of [rebound, reboundExpired, reboundRevoked]) {
      expect(await decryptRaw(grip)).toMatch(FORBIDDEN);
    }
    expect(await sent()).not.toMatch(/^PKDECRYPT/m);
  });

  it('a key that no certificate has is used where everything is granted, and nowhere else', async () => {
    for (const grant of [NO_SSH, NO_SIGNING, { decrypt: false }]) {
      const { sign, decryptRaw, sent } = await session(grant);
      expect(await sign(nameless)).toMatch(FORBIDDEN);
      expect(await decryptRaw(nameless)).toMatch(FORBIDDEN);
      expect(await sent()).not.toMatch(/^PK/m);
    }
    const { sign, uses } = await session({});
    expect(await sign(nameless)).toMatch(/OK\n$/);
    expect(uses.map(({ note }) => note)).toEqual(['a key of unknown usage']);
  });

  it('with everything granted all keys work, and the record says what they can do', async () => {
    const { sign, decryptRaw, uses } = await session({});
    for (const grip of [signing!, loggingIn!, signsAndLogsIn]) expect(await sign(grip)).toMatch(/OK\n$/);
    for (const grip of [decrypting!, everything]) expect(await decryptRaw(grip)).toMatch(/OK\n$/);
    for (const grip of [signing!, loggingIn!, nameless]) expect(await decryptRaw(grip)).toMatch(FORBIDDEN);
    expect(uses.map(({ command, note }) => [command, note])).toEqual([
      ['PKSIGN', undefined],
      ['PKSIGN', 'a key that logs in over SSH'],
      ['PKSIGN', 'a key that also logs in over SSH'],
      ['PKDECRYPT', undefined],
      ['PKDECRYPT', 'a key that also signs and logs in over SSH'],
    ]);
  });

  it('separate keys sign and decrypt under every grant that has the word', async () => {
    for (const grant of [{ decrypt: false }, NO_SSH, { login: new Set(['SHA256:another']) }]) {
      expect(await (await session(grant)).sign(signing!)).toMatch(/OK\n$/);
    }
    for (const grant of [NO_SIGNING, NO_SSH, { login: new Set(['SHA256:another']) }]) {
      expect(await (await session(grant)).decryptRaw(decrypting!)).toMatch(/OK\n$/);
    }
  });

  it('a key signs that may log in, since it is offered over SSH', async () => {
    const usages = new KeyUsages({ env: home.env });
    const { ssh } = await usages.of(inSshControl);
    expect(ssh).toMatch(/^SHA256:/);
    const { sign } = await session({ login: new Set([ssh!]) });
    expect(await sign(inSshControl)).toMatch(/OK\n$/);
    expect(await sign(signsAndLogsIn)).toMatch(FORBIDDEN);
  });

  it('only a key that is known, and not to sign, counts as one that only logs in over SSH', async () => {
    const usages = new KeyUsages({ env: home.env });
    await usages.upToDate();
    const printOf = async (grip: string) => (await usages.of(grip)).ssh ?? '';
    expect(usages.onlyLogsIn(await printOf(loggingIn!))).toBe(true);
    for (const grip of [signsAndLogsIn, inSshControl, everything, nameless]) {
      expect(usages.onlyLogsIn(await printOf(grip))).toBe(false);
    }
    expect(usages.onlyLogsIn('SHA256:unknown')).toBe(false);
    expect(usages.alsoSigns(await printOf(nameless))).toBe(false);
    expect(usages.problem).toBeUndefined();
    const print = await printOf(loggingIn!);
    await writeFile(join(home.dir, 'sshcontrol'), `# changed\n${inSshControl} 0\n`);
    expect(usages.onlyLogsIn(print)).toBe(false);
    await expect.poll(() => usages.onlyLogsIn(print)).toBe(true);
  });

  it('without a lookup of usages nothing is used under a narrowed grant', async () => {
    const use = { pace: new PromptPace(), record: { begin: () => ({ finish: () => {} }) }, grant: NO_SSH };
    const proxy = new AgentProxy({ env: home.env, use });
    onTestFinished(() => proxy.stop());
    const { sessionId } = await proxy.connectAgent();
    await proxy.sendCommands(sessionId, `SIGKEY ${signing}\n`);
    expect((await proxy.sendCommands(sessionId, 'PKSIGN\n')).response).toMatch(FORBIDDEN);
  });
});

describe('usages', () => {
  it('are looked up once, and again after a change and for a key that nobody knew', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    const first = await home.createKey('One <one@example.org>', { algo: 'rsa2048', usage: 'sign' });
    const [one] = await grips(home, first);
    let now = 1_000_000;
    const usages = new KeyUsages({ env: home.env, now: () => now });
    expect((await usages.of(one)).words).toEqual(new Set(['sign']));
    expect(usages.of(one)).not.toBeInstanceOf(Promise);
    expect(usages.of('F'.repeat(40))).toMatchObject({ known: false });
    now += 10_000;
    expect(usages.of('F'.repeat(40))).toBeInstanceOf(Promise);
    expect(await usages.of('F'.repeat(40))).toMatchObject({ known: false });
    await bindAsEncryptionKey(home, one!, 'Two <two@example.org>');
    const again = usages.of(one);
    expect(again).toBeInstanceOf(Promise);
    expect((await again).words).toEqual(new Set(['sign', 'decrypt']));
    // Newer agents say in a key's file that it is used for SSH.
    const file = join(home.dir, 'private-keys-v1.d', `${one}.key`);
    await writeFile(`${file}.new`, await readFile(file));
    await rename(`${file}.new`, file);
    expect(usages.of(one)).toBeInstanceOf(Promise);
  });

  it('are all unknown where gpg-agent does not tell', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    const [grip] = await grips(home, await home.createKey('One <one@example.org>'));
    const book = new LogBook();
    const usages = new KeyUsages({ env: home.env, gpgBinDir: join(home.dir, 'nothing'), log: book.log });
    expect(await usages.of(grip)).toMatchObject({ known: false });
    expect(book.text).toMatch(/doesn't know what its keys are for/);
  });

  it('are the union over OpenPGP and X.509 certificates', () => {
    const openPgp = [
      'pub:u:2048:1:A:1:::u:::scSC::::::23::0:',
      'fpr:::::::::F:',
      'grp:::::::::AA:',
      'sub:e:2048:1:B:1::::::e:',
      'grp:::::::::BB:',
      'pub:u:255:22:A:1:::u:::C::::::23::0:',
      'grp:::::::::EE:',
      // An EdDSA key that a certificate calls an ECDH key.
      'pub:u:255:22:A:1:::u:::scSC:::::ed25519:23::0:',
      'grp:::::::::FF:',
      'sub:u:255:18:B:1::::::e:::::ed25519:23:',
      'grp:::::::::FF:',
      'sub:u:255:18:B:1::::::e:::::cv25519:23:',
      'grp:::::::::A1:',
      // Such keys, of which no other certificate is there.
      'sub:u:255:18:B:1::::::e:::::ed25519:23:',
      'grp:::::::::A2:',
      'sub:u:448:18:B:1::::::e:::::Ed448:23:',
      'grp:::::::::A3:',
    ].join('\n');
    const x509 = [
      'crt:n:2048:1:C:2026:2030:3F::CN=Ann::eE::::::23:',
      'fpr:::::::::G:',
      'grp:::::::::AA:',
      'crt:n:2048:1:D:2026:2030:3F::CN=Bob::::',
      'grp:::::::::CC:',
    ].join('\n');
    const found = joinUsages(
      [...parseCertifiedKeys(openPgp), ...parseX509Keys(x509)],
      [
        { keygrip: 'BB', ssh: 'SHA256:b', isOfferedOverSsh: true },
        { keygrip: 'DD', ssh: undefined, isOfferedOverSsh: true },
      ],
    );
    const both = new Set(['sign', 'decrypt']);
    expect(found.get('AA')).toEqual({ words: both, known: true, ssh: undefined });
    expect(found.get('BB')).toEqual({ words: new Set(['decrypt', 'login']), known: true, ssh: 'SHA256:b' });
    expect(found.get('CC')).toMatchObject({ words: both });
    expect(found.get('DD')).toMatchObject({ known: false });
    expect(found.get('EE')).toMatchObject({ known: false });
    expect(found.get('FF')).toMatchObject({ words: new Set(['sign']), known: true });
    expect(found.get('A1')).toMatchObject({ words: new Set(['decrypt']), known: true });
    for (const grip of ['A2', 'A3']) expect(found.get(grip)).toMatchObject({ known: false });
  });
});

requireSystem('gpgsm')('usages with gpgsm', () => {
  it('count what X.509 certificates say', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    const fingerprint = await home.createKey('One <one@example.org>', { algo: 'rsa2048', usage: 'cert' });
    await addSubkey(home, fingerprint, 'encr');
    const [, grip] = await grips(home, fingerprint);
    const usages = new KeyUsages({ env: home.env });
    expect((await usages.of(grip)).words).toEqual(new Set(['decrypt']));
    const parameters = `Key-Type: RSA\nKey-Grip: ${grip}\nKey-Usage: sign\nName-DN: CN=Ann\nSerial: 1\n`;
    const certificate = await runOk('gpgsm', ['--batch', '--armor', '--gen-key'], {
      env: home.env,
      input: parameters,
    });
    await runOk('gpgsm', ['--batch', '--disable-dirmngr', '--import'], { env: home.env, input: certificate });
    expect((await usages.of(grip)).words).toEqual(new Set(['decrypt', 'sign']));
  });
});
