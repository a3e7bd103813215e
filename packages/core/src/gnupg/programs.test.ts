import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, test } from 'vitest';
import { findProgram, searchDirectories } from './programs.ts';

test('gpgBinDir is the only place that is searched', async () => {
  const dir = await tempDir();
  await expect(findProgram('gpgconf', { gpgBinDir: dir })).rejects.toMatchObject({
    code: 'GPGCONF_MISSING',
    why: `there is no program gpgconf in gpgBinDir (${dir})`,
  });
  const script = await writeScript(dir, 'gpgconf', 'true');
  expect(await findProgram('gpgconf', { gpgBinDir: dir })).toBe(script);
});

test('the first directory on PATH that has the program wins', async () => {
  const [first, second] = [await tempDir(), await tempDir()];
  const script = await writeScript(second, 'gpgconf', 'true');
  const env = { PATH: `${first}:${second}` };
  expect(await findProgram('gpgconf', { env })).toBe(script);
  const earlier = await writeScript(first, 'gpgconf', 'true');
  expect(await findProgram('gpgconf', { env })).toBe(earlier);
});

test('directories and files that are not executable are passed over', async () => {
  const [first, second, third] = [await tempDir(), await tempDir(), await tempDir()];
  await mkdir(join(first, 'gpg'));
  await writeFile(join(second, 'gpg'), 'text', { mode: 0o644 });
  const script = await writeScript(third, 'gpg', 'true');
  expect(await findProgram('gpg', { env: { PATH: `${first}:${second}:${third}` } })).toBe(script);
});

test('a program that is nowhere is a coded error with a way to install it', async () => {
  // On this platform's name for another system, none of the usual places exists.
  const missing = findProgram('gpg', { env: {}, platform: 'win32' });
  await expect(missing).rejects.toMatchObject({ code: 'GPG_MISSING', exitStatus: 4 });
  await expect(missing).rejects.toThrow(/Install Gpg4win/);
});

test('without PATH the usual places of the system are searched', async () => {
  expect(await findProgram('gpgconf', { env: {} })).toMatch(/^\/.*\/gpgconf$/);
  expect(searchDirectories({}, 'darwin')).toEqual(
    expect.arrayContaining(['/usr/local/MacGPG2/bin', '/opt/homebrew/bin']),
  );
  const windows = { 'programfiles(X86)': 'C:\\Program Files (x86)', ProgramFiles: 'C:\\Program Files' };
  expect(searchDirectories(windows, 'win32')).toEqual([
    'C:\\Program Files (x86)\\GnuPG\\bin',
    'C:\\Program Files (x86)\\Gpg4win\\bin',
    'C:\\Program Files\\GnuPG\\bin',
    'C:\\Program Files\\Gpg4win\\bin',
  ]);
});

test('PATH comes first, whatever its case on Windows, and relative entries never count', () => {
  expect(searchDirectories({ PATH: '.::bin:/opt/one' }, 'linux')[0]).toBe('/opt/one');
  expect(searchDirectories({ Path: 'tools;C:\\gnupg' }, 'win32')).toEqual(['C:\\gnupg']);
});
