import { mkdtemp, rm } from 'node:fs/promises';
import { onTestFinished } from 'vitest';

/** A private directory with a short path (socket paths are limited), removed when the test ends. */
export async function tempDir(): Promise<string> {
  const dir = await makeTempDir();
  onTestFinished(() => removeDir(dir));
  return dir;
}

/** The same without the automatic removal, for suites that share one directory. */
export function makeTempDir(): Promise<string> {
  return mkdtemp('/tmp/gb-');
}

/** Deletes a directory, also while a process that is just ending still removes its own files there. */
export function removeDir(dir: string): Promise<void> {
  return rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
}
