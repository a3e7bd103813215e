import { mkdtemp, rm } from 'node:fs/promises';
import { onTestFinished } from 'vitest';

/** A private directory with a short path (socket paths are limited), removed when the test ends. */
export async function tempDir(): Promise<string> {
  const dir = await makeTempDir();
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** The same without the automatic removal, for suites that share one directory. */
export function makeTempDir(): Promise<string> {
  return mkdtemp('/tmp/gb-');
}
