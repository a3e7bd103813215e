import { statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
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
});

it.runIf(process.platform === 'linux')('fails where nothing can be made', () => {
  expect(() => makeDirectories('/proc/x/y')).toThrow('ENOENT');
});
