import { rm } from 'node:fs/promises';
import { Person } from '@gpg-bridge/test-support/cli';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

async function bridged(...words: string[]) {
  const person = await Person.create();
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  await person.ok('up', name, ...words);
  const listed = () => target.gpgOk(['--with-colons', '--list-keys']);
  return { person, target, name, listed };
}

describe('public keys', () => {
  it('follow the keyring of the host by themselves, with their trust', async () => {
    const { person, target, name } = await bridged();
    const log = person.start(['log', name, '-f']);
    const bob = await person.home.createKey('Bob <bob@example.org>');
    await log.printed(/the host's keyring changed; public keys there: 1 new/);
    const listing = await target.gpgOk(['--with-colons', '--list-keys', bob]);
    expect(listing).toMatch(/^uid:u:.*Bob <bob@example.org>/m);
    await target.gpgOk(['-u', bob, '--clear-sign'], { input: 'hello' });
    await log.printed(new RegExp(`signed with Bob <bob@example.org> ${bob.slice(-16)}: ok`));
    expect(await person.ok('up', name)).toContain('keys 2 GPG keys');
  });

  it('are missed by `up` until there is one', async () => {
    const person = await Person.create({ key: false });
    const name = `local:${(await person.localHome()).dir}`;
    expect(await person.ok('up', name)).toContain(
      '! this machine has no private GPG key to sign with; make one',
    );
    const log = person.start(['log', name, '-f']);
    await person.home.createKey('Bob <bob@example.org>');
    await log.printed(/the host's keyring changed/);
    const said = await person.ok('up', name);
    expect(said).toContain('keys 1 GPG key');
    expect(said).not.toContain('no private GPG key');
  });

  it('are said by `up` to be of no use when all have expired', async () => {
    const person = await Person.create({ key: false });
    await person.home.createKey('Old <old@example.org>', { expired: true });
    const said = await person.ok('up', `local:${(await person.localHome()).dir}`);
    expect(said).toContain('keys 1 GPG key\n! no GPG key of this machine can sign now');
  });

  it('that were not asked for do not follow', async () => {
    const { person, name, listed } = await bridged('--keys', 'ada@example.org');
    const log = person.start(['log', name, '-f']);
    await person.home.createKey('Bob <bob@example.org>');
    await person.home.gpgOk([
      '--pinentry-mode',
      'loopback',
      '--passphrase',
      '',
      '--quick-add-uid',
      person.fingerprint,
      'Ada <ada@home.example>',
    ]);
    await log.printed(/the host's keyring changed; public keys there: 0 new, 1 updated/);
    expect(await listed()).toContain('ada@home.example');
    expect(await listed()).not.toContain('bob@example.org');
  });

  it('are given again with keys sync', async () => {
    const { person, target, name, listed } = await bridged();
    await rm(`${target.dir}/pubring.kbx`);
    expect(await person.ok('keys', 'sync', name)).toBe(
      `Public keys in ${name}: 1 new, 0 updated, 0 unchanged.\n`,
    );
    expect(await listed()).toMatch(/^uid:u:.*ada@example.org/m);
    expect(await person.json('keys', 'sync', name)).toEqual({ added: 0, updated: 0, unchanged: 1 });
    expect(await person.run(['keys', 'sync', 'local:/nowhere'])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('there is no bridge'),
    });
    expect(await person.run(['keys', 'list', name])).toMatchObject({ status: 2 });
  });
});

describe('--git', () => {
  it('tells git in the target who signs, says so, and changes nothing that is set', async () => {
    const person = await Person.create();
    const home = await tempDir();
    const target = await person.localHome();
    const prefix = `env HOME=${home} GNUPGHOME=${target.dir}`;
    const env = { ...target.env, HOME: home };
    await runOk('git', ['config', '--global', 'user.name', 'Somebody'], { env });
    const said = await person.ok('up', '--exec', prefix, '--git');
    expect(said).toContain(
      `set in git there: user.email = ada@example.org, user.signingkey = ${person.fingerprint}, gpg.format = openpgp`,
    );
    await runOk('git', ['init', '--quiet', `${home}/r`], { env });
    const commit = ['git', '-C', `${home}/r`, 'commit', '--quiet', '--allow-empty', '-S', '-m', 'x'];
    await person.ok('exec', '--exec', prefix, '--', ...commit);
    await runOk('git', ['-C', `${home}/r`, 'verify-commit', 'HEAD'], { env });
    const author = await runOk('git', ['-C', `${home}/r`, 'log', '--format=%an <%ae>'], { env });
    expect(author).toBe('Somebody <ada@example.org>\n');

    const settings = await runOk('git', ['config', '--global', '--list'], { env });
    expect(await person.ok('up', '--exec', prefix)).not.toContain('set in git');
    await person.ok('down', '--exec', prefix);
    expect(await runOk('git', ['config', '--global', '--list'], { env })).toBe(settings);
    const again = await person.ok('up', '--exec', prefix, '--git');
    expect(again).toContain('git there had all of its settings already');
    expect(
      (await run('git', ['config', '--global', '--get-all', 'user.email'], { env })).stdout.toString(),
    ).toBe('ada@example.org\n');
  });
});
