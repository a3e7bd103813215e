import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { gnupgHome } from '@gpg-bridge/test-support/target-listener';
import { expect, it, onTestFinished } from 'vitest';
import type { ProgramResult } from '../process/run-program.ts';
import { DirectOperations } from './direct-operations.ts';
import { failedRun, shortageIn } from './import-failure.ts';

/** gpg's end with these words. */
function ended(status: number, ...stderr: string[]): ProgramResult {
  return { status, signal: undefined, stdout: Buffer.alloc(0), stderr: `${stderr.join('\n')}\n` };
}

const NO_KEYRING = ended(2, 'gpg: no writable keyring found: Not found', 'gpg: import failed: General error');

it.each([
  ['No space left on device', 'ENOSPC'],
  ['Disk quota exceeded', 'EDQUOT'],
  ['Read-only file system', 'EROFS'],
])('knows what gpg means by %s, wherever it says so', (words, code) => {
  const line = `gpg: keyblock resource '/t/pubring.kbx': ${words}`;
  const run = ended(2, line, 'one', 'two', 'three', 'four');
  expect(shortageIn(run)).toMatchObject({ code, message: line });
  expect(shortageIn({ ...run, status: 0 })).toBeUndefined();
});

it('has gpg’s own words for any other reason, and leaves nothing in the home', async () => {
  const target = await gnupgHome();
  const before = await readdir(target.dir);
  expect(shortageIn(NO_KEYRING)).toBeUndefined();
  expect(await failedRun(new DirectOperations(target), NO_KEYRING)).toMatchObject({
    code: 'KEY_IMPORT_FAILED',
    why: expect.stringContaining('no writable keyring found'),
    fix: expect.stringContaining('its home is writable'),
  });
  expect(await readdir(target.dir)).toEqual(before);
});

requireSystem('mount')('a full disk', () => {
  it('is found where gpg only says that it found no keyring', async () => {
    const target = await gnupgHome();
    const disk = join(target.dir, 'full');
    await mkdir(disk);
    await runOk('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', disk]);
    onTestFinished(async () => void (await runOk('umount', ['-l', disk])));
    await writeFile(join(disk, 'ballast'), Buffer.alloc(1024 * 1024)).catch(() => {});
    const operations = new DirectOperations({ env: { ...target.env, GNUPGHOME: disk } });
    expect(await failedRun(operations, NO_KEYRING)).toMatchObject({
      code: 'KEY_IMPORT_FAILED',
      why: expect.stringMatching(/^the disk is full \(.*No space left on device\)$/),
      fix: 'Make room there, and try again.',
    });
    expect(await readdir(disk)).toEqual(['ballast']);
  });
});
