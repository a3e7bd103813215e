import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { talk } from '@gpg-bridge/test-support/talk';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Logged {
  command: string;
  outcome: string;
  key?: string;
  note?: string;
}

/** Somebody with separate keys, and one key that signs and logs in. */
async function personWithMixedKeys() {
  const person = await Person.create();
  await person.home.addEncryptionKey(person.fingerprint);
  const mixed = await person.home.createKey('Mixed Test <mixed@example.org>', {
    algo: 'rsa2048',
    usage: 'sign,cert,auth',
  });
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  const listing = await person.home.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', mixed]);
  const grip = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
  const up = (...options: string[]) => person.json<{ warnings: string[] }>('up', name, ...options);
  const signWith = (key: string) => target.gpg(['-u', key, '--clear-sign'], { input: 'text' });
  return { person, target, name, mixed, grip, up, signWith, socket: `${target.dir}/S.gpg-agent` };
}

describe('the usage of keys', () => {
  it('leaves a key out that could log in under --no-ssh: up, the client and the log say so', async () => {
    const { person, name, grip, up, signWith } = await personWithMixedKeys();
    const { warnings } = await up('--no-ssh');
    const why = 'that key can also log in over SSH, which this target may not';
    expect(warnings).toContain(`the key of Mixed Test <mixed@example.org> can't sign here: ${why}`);
    expect((await signWith('ada@example.org')).status).toBe(0);
    const refused = await signWith('mixed@example.org');
    expect(refused.status).not.toBe(0);
    expect(refused.stderr).toMatch(/Forbidden/);
    const log = (await person.json<Logged[]>('log', name)).filter(({ command }) => command === 'PKSIGN');
    expect(log).toMatchObject([{ outcome: 'ok' }, { outcome: 'refused', key: grip, note: why }]);
    expect(log[0]).not.toHaveProperty('note');
    expect(await person.ok('log', name)).toContain(`refused (${why})`);
  });

  it('is recorded where everything is granted and a use may be another than it is called', async () => {
    const { person, name, up, signWith } = await personWithMixedKeys();
    expect((await up()).warnings.join()).not.toMatch(/can't sign/);
    expect((await signWith('mixed@example.org')).status).toBe(0);
    const uses = await person.json<Logged[]>('log', '--uses', name);
    expect(uses).toMatchObject([{ outcome: 'ok', note: 'a key that also logs in over SSH' }]);
    expect(await person.ok('log', name)).toContain('(a key that also logs in over SSH): ok');
  });

  it('keeps a key from decrypting that signs, under --no-decrypt and beside it', async () => {
    const { grip, up, socket } = await personWithMixedKeys();
    const decrypt = `SETKEY ${grip}\nPKDECRYPT\nBYE\n`;
    await up('--no-decrypt');
    expect(await talk(socket, decrypt)).toMatch(/\nERR 67109115 Forbidden/);
    await up('--decrypt', '--no-ssh');
    expect(await talk(socket, decrypt)).toMatch(/\nERR 67109115 Forbidden/);
  });

  it('is that of the agent which --gpg-socket names, where its home can be told', async () => {
    const { person, name, up, socket } = await personWithMixedKeys();
    const other = await GnupgHome.create();
    onTestFinished(() => other.remove());
    const fingerprint = await other.createKey('Other <other@example.org>', { usage: 'sign' });
    const listing = await other.gpgOk(['--with-colons', '--with-keygrip', '--list-keys', fingerprint]);
    const grip = /^grp:+([0-9A-F]{40}):/m.exec(listing)![1]!;
    const sign = `SIGKEY ${grip}\nSETHASH 8 ${'00'.repeat(32)}\nPKSIGN\nBYE\n`;
    await other.launchAgent();
    await up('--no-decrypt', '--gpg-socket', await other.socket('agent-extra-socket'));
    expect(await talk(socket, sign)).toContain('D (7:sig-val');
    await up('--gpg-key', fingerprint);
    expect(await talk(socket, sign)).toContain('D (7:sig-val');
    await person.ok('down', '--forget', name);

    // The agent's own socket directory tells nothing of a place that its configuration names.
    await other.killAgent();
    const path = join(await tempDir(), 'elsewhere');
    await writeFile(join(other.dir, 'gpg-agent.conf'), `extra-socket ${path}\n`);
    await other.launchAgent();
    const { warnings } = await up('--no-decrypt', '--gpg-socket', path);
    expect(warnings.join()).toContain("can't tell the home directory of the gpg-agent at --gpg-socket");
    expect(await talk(socket, sign)).toMatch(/\nERR 67109115 Forbidden/);
  });

  it('lets separate keys sign commits and decrypt under each option', async () => {
    const { person, target, up } = await personWithMixedKeys();
    const encrypted = await person.home.gpgOk(
      ['--trust-model', 'always', '--armor', '-r', person.fingerprint, '--encrypt'],
      { input: 'secret' },
    );
    const repository = join(target.dir, 'repository');
    await runOk('git', ['init', '-q', repository], { env: target.env });
    const settings = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org'];
    const commit = [...settings, 'commit', '-q', '--allow-empty', `-S${person.fingerprint}`, '-m', 'x'];
    for (const options of [['--no-ssh'], ['--no-decrypt'], ['--decrypt', '--gpg-key', 'ada@example.org']]) {
      await up(...options);
      expect(await run('git', ['-C', repository, ...commit], { env: target.env })).toMatchObject({
        status: 0,
      });
      const { status } = await target.gpg(['--decrypt'], { input: encrypted });
      expect(status === 0).toBe(options[0] !== '--no-decrypt');
    }
  });
});
