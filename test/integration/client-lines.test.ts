import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { acceptedLines, refusedOf } from '@gpg-bridge/test-support/agent-lines';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it, onTestFinished } from 'vitest';

// What GnuPG's own programs say to a restricted agent without a bridge, out of the agent's log: every command that the
// agent accepts from them has to be on the list of those that may reach it.

/** A host whose agent logs every line, and a target whose socket leads to its restricted one. */
async function directly() {
  const [host, target] = [await GnupgHome.create(), await GnupgHome.create()];
  onTestFinished(() => host.remove());
  onTestFinished(() => target.remove());
  const log = join(host.dir, 'lines.log');
  await writeFile(join(host.dir, 'gpg-agent.conf'), `log-file ${log}\ndebug ipc\n`);
  const fingerprint = await host.createKey('Ada Test <ada@example.org>', { algo: 'rsa2048', usage: 'sign' });
  await host.addEncryptionKey(fingerprint, 'rsa2048');
  const keys = await host.gpg(['--export']);
  await target.gpgOk(['--no-autostart', '--import'], { input: keys.stdout });
  const redirect = `%Assuan%\nsocket=${await host.socket('agent-extra-socket')}\n`;
  await writeFile(await target.socket('agent-socket'), redirect);
  return { host, target, fingerprint, lines: () => acceptedLines(readFileSync(log, 'latin1')) };
}

describe('every command that a restricted agent accepts is on the list', () => {
  it('from gpg', async () => {
    const { target, fingerprint, lines } = await directly();
    const gpg = (args: string[], input = '') =>
      target.gpg(['--no-autostart', '--trust-model', 'always', ...args], { input });
    expect((await gpg(['--clear-sign'], 'text')).status).toBe(0);
    expect((await gpg(['--detach-sign', '-u', fingerprint], 'text')).status).toBe(0);
    const sealed = await gpg(['--armor', '--encrypt', '--sign', '-r', fingerprint], 'text');
    expect((await gpg(['--decrypt'], String(sealed.stdout))).stdout.toString()).toBe('text');
    await gpg(['--list-secret-keys', '--with-keygrip']);
    await gpg(['--card-status']);
    await gpg(['--quick-add-uid', fingerprint, 'Bob <bob@example.org>']);
    await gpg(['--export-secret-keys']);
    await gpg(['--delete-secret-keys', '--yes', fingerprint]);
    await gpg(['--quick-gen-key', '--passphrase', '', 'Eve <eve@example.org>']);
    await gpg(['--symmetric', '--passphrase', 'x'], 'text');
    await run('gpg-connect-agent', ['--no-autostart', 'GETINFO version', 'HELP', '/bye'], {
      env: target.env,
    });
    const sent = lines();
    expect(sent).toContain('PKSIGN');
    expect(sent).toContain('PKDECRYPT');
    expect(refusedOf(sent)).toEqual([]);
  });

  requireSystem('gpgsm')('from gpgsm', () => {
    it('that signs and decrypts', async () => {
      const { host, target, fingerprint, lines } = await directly();
      const listing = await host.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
      const grip = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
      const parameters = `Key-Type: RSA\nKey-Grip: ${grip}\nName-DN: CN=Ada\nName-Email: ada@example.org\nSerial: 1\n`;
      const offline = ['--batch', '--no-autostart', '--disable-dirmngr', '--disable-crl-checks'];
      const certificate = await runOk('gpgsm', ['--batch', '--armor', '--gen-key'], {
        env: host.env,
        input: parameters,
      });
      const gpgsm = (args: string[], input: string) =>
        runOk('gpgsm', [...offline, ...args], { env: target.env, input });
      await gpgsm(['--import'], certificate);
      const print = /^fpr:+([0-9A-F]{40}):/m.exec(await gpgsm(['--with-colons', '--list-keys'], ''))![1]!;
      await writeFile(join(host.dir, 'trustlist.txt'), `${print} S relax\n`);
      await runOk('gpg-connect-agent', ['RELOADAGENT', '/bye'], { env: host.env });
      await gpgsm(['--list-secret-keys'], '');
      await gpgsm(['--armor', '--sign', '-u', 'ada@example.org'], 'text');
      const sealed = await gpgsm(['--armor', '--encrypt', '-r', 'ada@example.org'], 'text');
      expect(await gpgsm(['--decrypt'], sealed)).toBe('text');
      const sent = lines();
      for (const command of ['PKSIGN', 'PKDECRYPT']) expect(sent).toContain(command);
      expect(sent.some((line) => line.startsWith('HAVEKEY'))).toBe(true);
      expect(refusedOf(sent)).toEqual([]);
    });
  });
});
