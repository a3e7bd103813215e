import { once } from 'node:events';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { connectLocal, readPipeName, writePipeFile } from './pipe-file.ts';
import { newPipeName } from './temporary-name.ts';

describe('the file that stands for a pipe', () => {
  it('keeps a name that nobody can guess, and is not written over', async () => {
    const path = join(await tempDir(), 's');
    const pipe = newPipeName();
    expect(pipe).toMatch(/^\\\\\.\\pipe\\gpg-bridge-[0-9a-f]{32}$/);
    expect(newPipeName()).not.toBe(pipe);
    writePipeFile(path, pipe);
    expect(readPipeName(path)).toBe(pipe);
    expect(() => writePipeFile(path, newPipeName())).toThrow('EEXIST');
    expect(await readFile(path, 'utf8')).toBe(`${pipe}\n`);
  });

  it('leads nowhere when it holds anything else, or is not there', async () => {
    const dir = await tempDir();
    const [other, link] = [join(dir, 'other'), join(dir, 'link')];
    await writeFile(other, '\\\\.\\pipe\\somebody-elses');
    writePipeFile(join(dir, 'real'), newPipeName());
    await symlink('real', link);
    for (const path of [other, link, join(dir, 'none')]) {
      expect(readPipeName(path)).toBeUndefined();
      const [error] = await once(connectLocal(path, 'win32'), 'error').catch((thrown) => [thrown]);
      expect(error).toMatchObject({ code: 'ENOENT' });
    }
  });
});
