import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Writes an executable shell script and returns its path. */
export async function writeScript(directory: string, name: string, body: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return path;
}
