import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { agentsOf } from '@gpg-bridge/test-support/agent-processes';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { joinHomes, type ProxiedHomes } from '@gpg-bridge/test-support/proxied-homes';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const MESSAGE = Buffer.from('to be signed\n');
const SECRET = Buffer.from(Array.from({ length: 4096 }, (_, i) => i % 256));

describe('gpg in the target, with the host’s keys', () => {
  let homes: ProxiedHomes;
  let signer: string;
  let rsa: string;
  const operations: Operation[] = [];

  beforeAll(async () => {
    homes = await joinHomes({
      agentConfig: { onOperation: (_, operation) => void operations.push(operation) },
    });
    signer = await homes.host.createKey('Ed <ed@example.org>');
    await homes.host.addEncryptionKey(signer);
    rsa = await homes.host.createKey('Rsa <rsa@example.org>', { algo: 'rsa4096', usage: 'sign' });
    await homes.host.addEncryptionKey(rsa, 'rsa4096');
    await homes.shareKeys();
  });
  afterAll(() => homes.remove());

  const ways = [
    { name: 'inline', args: ['--sign'] },
    { name: 'clear', args: ['--clear-sign'] },
    { name: 'detached', args: ['--detach-sign', '--armor'] },
  ];
  it.each(ways)('signs ($name), and the signature is good', async ({ args }) => {
    const made = await homes.target.gpg(['-u', signer, '--output', '-', ...args], { input: MESSAGE });
    expect(made.stderr).toBe('');
    expect(made.status).toBe(0);
    const verify = args.includes('--detach-sign')
      ? await verifyDetached(homes, made.stdout)
      : await homes.target.gpg(['--status-fd', '1', '--output', '/dev/null', '--decrypt'], {
          input: made.stdout,
        });
    expect(verify.stdout.toString()).toContain(`VALIDSIG ${signer}`);
  });

  it('signs for fifty clients at once, every signature good', async () => {
    const made = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        homes.target.gpg(['-u', signer, '--output', '-', '--sign'], { input: `message ${i}` }),
      ),
    );
    // gpg's own locks may be lost in the rush, which it says and survives.
    const said = (stderr: string) => stderr.replace(/^gpg: .*lockfile.*\n/gm, '');
    expect(made.filter(({ status, stderr }) => status !== 0 || said(stderr) !== '')).toEqual([]);
    // gpg verifies one message a run; all of them in one, it would not say which is whose.
    const read = await Promise.all(
      made.map(({ stdout }) => homes.target.gpg(['--status-fd', '2', '--decrypt'], { input: stdout })),
    );
    expect(read.map(({ stdout }) => stdout.toString())).toEqual(made.map((_, i) => `message ${i}`));
    expect(read.every(({ stderr }) => stderr.includes(`VALIDSIG ${signer}`))).toBe(true);
  });

  it('signs a git commit that git verifies', async () => {
    const repository = await tempDir();
    const git = (...args: string[]) =>
      runOk('git', ['-C', repository, '-c', 'user.name=Ed', '-c', 'user.email=ed@example.org', ...args], {
        env: homes.target.env,
      });
    await git('init', '--quiet');
    await git('-c', `user.signingkey=${signer}`, 'commit', '--quiet', '--allow-empty', '-S', '-m', 'signed');
    expect(await git('verify-commit', '--raw', 'HEAD')).toBe('');
    expect(await git('log', '-1', '--format=%G? %GF')).toBe(`G ${signer}\n`);
  });

  it.each(['ECC', 'RSA-4096'])('decrypts what was encrypted to an %s key', async (kind) => {
    const recipient = kind === 'ECC' ? signer : rsa;
    const sealed = await homes.target.gpg(['--output', '-', '--recipient', recipient, '--encrypt'], {
      input: SECRET,
    });
    const opened = await homes.target.gpg(['--decrypt'], { input: sealed.stdout });
    expect(opened.status).toBe(0);
    expect(opened.stdout.equals(SECRET)).toBe(true);
  });

  it('passes the agent’s refusal of a key it does not have', async () => {
    const stranger = await homes.target.gpg(['--decrypt'], { input: await sealedToAStranger(homes) });
    expect(stranger.status).not.toBe(0);
    expect(stranger.stderr).toMatch(/No secret key/);
  });

  it('passes every answer of the agent unchanged, refusals too', async () => {
    const unknownKey = '0123456789ABCDEF0123456789ABCDEF01234567';
    const script = [
      'GETINFO version',
      `HAVEKEY ${unknownKey}`,
      `SIGKEY ${unknownKey}`,
      `SETHASH --hash=sha256 ${'AB'.repeat(32)}`,
      'PKSIGN',
      'KEYINFO --list',
      'OPTION ttytype=vt100',
      '# a comment, and a blank line',
      '',
      'HELP PKSIGN',
      'BYE',
    ].join('\n');
    const paths = [await homes.host.socket('agent-extra-socket'), homes.requestProxy.socketPath];
    const [direct, bridged] = await Promise.all(
      paths.map(async (path) => {
        const client = await TestClient.connect(path);
        await client.reads('\n'); // the greeting, which names the process that connected
        client.forget();
        client.write(`${script}\n`);
        return client.readsAll();
      }),
    );
    expect(direct).toContain('ERR 67108881 No secret key <GPG Agent>\n');
    expect(direct).toMatch(/OK closing connection\n$/);
    expect(bridged).toBe(direct);
  });

  it('exports the public keys of the host', async () => {
    const { keys, trust, count } = await homes.agentProxy.exportPublicKeys('pairs');
    expect(trust.sort()).toEqual([signer, rsa].sort());
    expect(count).toBe(2);
    const shown = await homes.target.gpgOk(['--no-autostart', '--show-keys', '--with-colons'], {
      input: Buffer.from(keys, 'base64'),
    });
    expect(shown).toContain(signer);
    expect(shown).toContain(rsa);
  });

  it('never makes gpg start an agent of its own', async () => {
    const answer = await runOk('gpg-connect-agent', ['--no-autostart', 'GETINFO restricted', '/bye'], {
      env: homes.target.env,
    });
    expect(answer).toContain('OK'); // an agent of the target's own would answer ERR False
    expect(existsSync(await homes.target.socket('agent-extra-socket'))).toBe(false);
    expect(await agentsOf(homes.target)).toEqual([]);
  });

  it('leaves no session open once its client is gone', async () => {
    await homes.target.gpgOk(['-u', signer, '--output', '/dev/null', '--sign'], { input: 'x' });
    await expect.poll(() => [homes.book.openSessions, homes.clients()], PATIENT).toEqual([0, 0]);
  });

  it('tells of it without a byte of what was signed, decrypted or made', () => {
    const words = new Set(operations.map(({ command, outcome }) => `${command} ${outcome}`));
    expect([...words]).toEqual(
      expect.arrayContaining(['PKSIGN ok', 'PKDECRYPT ok', 'PKSIGN error', 'HAVEKEY error']),
    );
    expect(homes.payload.length).toBeGreaterThan(100);
    for (const secret of [MESSAGE, SECRET.subarray(0, 16), ...new Set(homes.payload)]) {
      expectNoSecret(secret, homes.book.text, operations);
    }
  });
});

async function verifyDetached(homes: ProxiedHomes, signature: Buffer) {
  const dir = await tempDir();
  await writeFile(join(dir, 'm.asc'), signature);
  return homes.target.gpg(['--status-fd', '1', '--verify', join(dir, 'm.asc'), '-'], { input: MESSAGE });
}

async function sealedToAStranger(homes: ProxiedHomes): Promise<Buffer> {
  const stranger = await GnupgHome.create();
  try {
    const key = await stranger.createKey('Stranger <s@example.org>');
    await stranger.addEncryptionKey(key);
    const { stdout } = await stranger.gpg(['--export']);
    await homes.target.gpgOk(['--no-autostart', '--import'], { input: stdout });
    const sealed = await homes.target.gpg(
      ['--output', '-', '--trust-model', 'always', '--recipient', key, '--encrypt'],
      { input: 'secret' },
    );
    return sealed.stdout;
  } finally {
    await stranger.remove();
  }
}
