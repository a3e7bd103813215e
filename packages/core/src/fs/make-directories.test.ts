import { statSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';
import { makeDirectories } from './make-directories.ts';

it('makes what is missing, for the owner alone', async () => {
  const dir = await tempDir();
  makeDirectories(join(dir, 'a/b/c'));
  makeDirectories(join(dir, 'a/b/c'));
  for (const name of ['a', 'a/b', 'a/b/c']) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o700);
  await writeFile(join(dir, 'file'), '');
  expect(() => makeDirectories(join(dir, 'file/x'))).toThrow('ENOTDIR');
  expect(() => makeDirectories(join(dir, 'file'))).toThrow('EEXIST');
  await symlink('circle', join(dir, 'circle'));
  expect(() => makeDirectories(join(dir, 'circle'))).toThrow('ELOOP');
});

it.runIf(process.platform === 'linux')('fails where nothing can be made', () => {
  expect(() => makeDirectories('/proc/x/y')).toThrow('ENOENT');
});
