import { run, runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import type { GitSettings } from '../git-settings.ts';
import { runProgram } from '../process/run-program.ts';
import { setMissingGitSettings } from './git-setup.ts';
import type { TargetOperations } from './operations.ts';

const WANTED: GitSettings = {
  'user.name': "Ada 'O",
  'user.email': 'ada@example.org',
  'user.signingkey': 'ABCD',
  'gpg.format': 'openpgp',
};

/** A target whose user has these settings. */
async function target(settings: Record<string, string> = {}) {
  const home = await tempDir();
  const env = { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: '1' };
  for (const [name, value] of Object.entries(settings)) {
    await runOk('git', ['config', '--global', name, value], { env });
  }
  const operations = {
    run: ({ program, args }) => runProgram(program, args, { env }),
  } as Partial<TargetOperations> as TargetOperations;
  const get = async (name: string) =>
    (await run('git', ['config', '--global', '--get', name], { env })).stdout.toString().trimEnd();
  return { operations, get, env };
}

describe('setMissingGitSettings', () => {
  it('sets everything where nothing is set', async () => {
    const { operations, get } = await target();
    expect(await setMissingGitSettings(operations, WANTED)).toEqual(Object.keys(WANTED));
    for (const [name, value] of Object.entries(WANTED)) expect(await get(name)).toBe(value);
    expect(await setMissingGitSettings(operations, WANTED)).toEqual([]);
  });

  it('changes nothing that is set, empty or not', async () => {
    const { operations, get } = await target({ 'user.email': 'other@example.org', 'user.name': '' });
    expect(await setMissingGitSettings(operations, WANTED)).toEqual(['user.signingkey', 'gpg.format']);
    expect(await get('user.email')).toBe('other@example.org');
    expect(await get('user.name')).toBe('');
  });

  it('sets no key that the format there can not use, and no format for the key there', async () => {
    const ssh = { ...WANTED, 'gpg.format': 'ssh', 'user.signingkey': 'key::ssh-ed25519 A' };
    const one = await target({ 'gpg.format': 'ssh' });
    expect(await setMissingGitSettings(one.operations, WANTED)).toEqual(['user.name', 'user.email']);
    const two = await target({ 'user.signingkey': 'ABCD' });
    expect(await setMissingGitSettings(two.operations, ssh)).toEqual(['user.name', 'user.email']);
  });

  it('says what is missing', async () => {
    const operations = {
      run: () => Promise.reject(Object.assign(new Error('spawn git ENOENT'), { code: 'ENOENT' })),
    } as Partial<TargetOperations> as TargetOperations;
    await expect(setMissingGitSettings(operations, WANTED)).rejects.toMatchObject({
      code: 'TARGET_ERROR',
      why: expect.stringContaining('ENOENT'),
    });
  });
});
