import { join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { Patient } from '@gpg-bridge/test-support/doctor';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

/** A person with a local target that has no bridge yet, and the git of both. */
async function withGit(...settings: [name: string, value: string][]) {
  const person = await Person.create();
  const name = `local:${(await person.localHome()).dir}`;
  const git = (...args: string[]) => runOk('git', ['config', '--global', ...args], { env: person.env });
  for (const setting of settings) await git(...setting);
  return { person, name, git, patient: await Patient.create(person, [name]) };
}

describe('gpg-bridge doctor about git in a target', () => {
  it('no user.email', async () => {
    const { patient } = await withGit();
    await patient.isCuredOf('git-email', { status: 'warn', detail: /user\.email is not set/ });
    expect(await patient.check('git-signing-key')).toMatchObject({
      status: 'ok',
      detail: expect.stringContaining('git takes the key of ada@example.org'),
    });
  });

  it('a user.email that no key has', async () => {
    const { patient } = await withGit(['user.email', 'other@example.org']);
    await patient.isCuredOf('git-signing-key', { status: 'warn', detail: /user\.signingkey is not set/ });
    await patient.isCuredOf('git-email', {
      status: 'warn',
      detail: /no key that can sign has .*other@example\.org/,
    });
  });

  it('a signing key that is not there, and one that has expired', async () => {
    const { person, patient, git } = await withGit(['user.signingkey', '0123456789ABCDEF']);
    await patient.isCuredOf('git-signing-key', {
      status: 'fail',
      detail: /is no private key of this machine/,
    });
    await git('user.signingkey', await person.home.createKey('Old <old@example.org>', { expired: true }));
    await patient.isCuredOf('git-signing-key', { status: 'fail', detail: /Old .* has expired/ });
  });

  it('a program and a format that git can not use', async () => {
    const { patient } = await withGit(['gpg.program', '/nowhere/gpg'], ['gpg.format', 'pgp']);
    await patient.isCuredOf('git-program', { status: 'fail', detail: /gpg\.program is \/nowhere\/gpg/ });
    await patient.isCuredOf('git-format', { status: 'fail', detail: /gpg\.format is pgp/ });
  });

  it('signatures that are always wanted, and no bridge', async () => {
    const { patient } = await withGit(['commit.gpgsign', 'true']);
    await patient.isCuredOf('git-gpgsign', { status: 'warn', detail: /without a bridge/ });
  });

  it('SSH keys to sign with, and no ssh-agent', async () => {
    const { person, name } = await withGit(['gpg.format', 'ssh']);
    const agent = await startSshAgent();
    await agent.addKey('mine');
    await person.ok('up', name);
    const patient = await Patient.create(person, [name], { SSH_AUTH_SOCK: agent.socketPath });
    await patient.isCuredOf('git-format', { status: 'fail', detail: /the bridge has no ssh-agent/ });
  });

  it('an SSH key to sign with that was not named, or is not there', async () => {
    const { person, name, git } = await withGit(['gpg.format', 'ssh']);
    const agent = await startSshAgent();
    await agent.addKey('mine');
    const patient = await Patient.create(person, [name], { SSH_AUTH_SOCK: agent.socketPath });
    await patient.isCuredOf('git-signing-key', { status: 'fail', detail: /user\.signingkey is not set/ });
    const stranger = await tempDir();
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(stranger, 'key')]);
    await git('user.signingkey', join(stranger, 'key.pub'));
    await patient.isCuredOf('git-signing-key', { status: 'fail', detail: /no key of the ssh-agent/ });
    // What was advised really signs.
    const repository = await tempDir();
    await runOk('git', ['init', '-q', repository], { env: person.env });
    const commit = [
      '-c',
      'user.name=Ada',
      '-c',
      'user.email=a@x',
      'commit',
      '-qS',
      '--allow-empty',
      '-m',
      'x',
    ];
    expect(await run('git', ['-C', repository, ...commit], { env: patient.env })).toMatchObject({
      status: 0,
    });
  });
});
