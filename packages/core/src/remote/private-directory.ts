import { chmod, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes a directory, and those above it that are missing, for its owner alone; whatever exists stays as
 * it is. (Node's own recursive mkdir never returns where mkdir answers ENOENT for a parent that is
 * there, as /proc does.)
 */
export async function makePrivateDirectory(directory: string): Promise<void> {
  if (await makeOne(directory)) return;
  await makePrivateDirectory(dirname(directory));
  if (!(await makeOne(directory))) throw new Error(`${directory} can't be made`);
}

/** False if the directory above is missing. */
async function makeOne(directory: string): Promise<boolean> {
  try {
    await mkdir(directory, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || directory === dirname(directory)) return true;
    if (code === 'ENOENT') return false;
    throw error;
  }
  await chmod(directory, 0o700); // a umask may have taken away what the owner needs
  return true;
}
