import { execFileSync } from 'node:child_process';
import { closeSync, readFileSync, statSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { openPlainFile, readPlainFile } from './plain-file.ts';

describe('a plain file', () => {
  it('is made for its owner alone, and read back', async () => {
    const path = join(await tempDir(), 'f');
    const file = openPlainFile(path, 'append');
    writeSync(file, 'text');
    closeSync(file);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readPlainFile(path)).toBe('text');
    expect(() => openPlainFile(path, 'create')).toThrow(expect.objectContaining({ code: 'EEXIST' }));
  });

  it.each(['read', 'append', 'update', 'create'] as const)(
    'is not looked for behind a symbolic link (%s)',
    async (purpose) => {
      const dir = await tempDir();
      writeFileSync(join(dir, 'precious'), 'precious');
      symlinkSync(join(dir, 'precious'), join(dir, 'link'));
      expect(() => openPlainFile(join(dir, 'link'), purpose)).toThrow(/ELOOP|EEXIST/);
      expect(readFileSync(join(dir, 'precious'), 'utf8')).toBe('precious');
    },
  );

  it('is no named pipe, which would be waited for', async () => {
    const path = join(await tempDir(), 'pipe');
    execFileSync('mkfifo', [path], { timeout: 60_000 });
    expect(() => readPlainFile(path)).toThrow('is a named pipe');
  });
});
