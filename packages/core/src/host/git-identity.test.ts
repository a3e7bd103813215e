import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { runOk } from '@gpg-bridge/test-support/process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hostGitSettings } from './git-identity.ts';

const BOTH = { gpg: true, ssh: true };

/** A host with two keys, and these settings in its git. */
async function host(settings: Record<string, string> = {}) {
  const home = await GnupgHome.create();
  onTestFinished(() => home.remove());
  const ada = await home.createKey('Ada Test (work) <ada@example.org>');
  const bob = await home.createKey('Bob <bob@example.org>');
  const { GIT_CONFIG_GLOBAL: _, ...env } = home.env;
  for (const [name, value] of Object.entries(settings)) {
    await runOk('git', ['config', '--global', name, value], { env });
  }
  return { env, ada, bob, dir: env.HOME! };
}

describe('hostGitSettings', () => {
  it('come from the keys of a host whose git says nothing', async () => {
    const { env, ada } = await host();
    expect(await hostGitSettings(BOTH, { env })).toEqual({
      'user.name': 'Ada Test',
      'user.email': 'ada@example.org',
      'user.signingkey': ada,
      'gpg.format': 'openpgp',
    });
  });

  it('come from its git first, and the key is that of its address', async () => {
    const { env, bob } = await host({ 'user.name': 'Robert', 'user.email': 'bob@example.org' });
    expect(await hostGitSettings(BOTH, { env })).toEqual({
      'user.name': 'Robert',
      'user.email': 'bob@example.org',
      'user.signingkey': bob,
      'gpg.format': 'openpgp',
    });
  });

  it('name no key that the target can not use', async () => {
    const { env } = await host();
    expect(await hostGitSettings({ gpg: false, ssh: true }, { env })).toEqual({});
    const grips = new Set(['0'.repeat(40)]);
    expect(await hostGitSettings({ ...BOTH, keygrips: grips }, { env })).toEqual({});
  });

  it('have a key of SSH itself in place of its file', async () => {
    const { env, dir } = await host({ 'gpg.format': 'ssh', 'user.signingkey': '~/.ssh/id_ed25519' });
    await mkdir(join(dir, '.ssh'));
    await writeFile(join(dir, '.ssh/id_ed25519.pub'), 'ssh-ed25519 AAAAC3Nza ada@host\n');
    expect(await hostGitSettings(BOTH, { env })).toMatchObject({
      'user.signingkey': 'key::ssh-ed25519 AAAAC3Nza',
      'gpg.format': 'ssh',
    });
    expect(await hostGitSettings({ gpg: true, ssh: false }, { env })).not.toHaveProperty('gpg.format');
  });
});
