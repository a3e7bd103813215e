import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test, vi } from 'vitest';
import { lstatIdentitySync } from '../fs/socket-identity.ts';
import { PathWatch } from './path-watch.ts';

/** A watch over a file that is there, whose calls can be awaited. */
async function watchFile() {
  const directory = join(await tempDir(), 'd');
  const path = join(directory, 'mine');
  await mkdir(directory);
  await writeFile(path, '');
  const [log, calls] = [new LogBook(), new LogBook()];
  const own = lstatIdentitySync(path)!;
  const watch = new PathWatch(path, own, () => calls.log('replaced', 'info'), log.log);
  onTestFinished(() => watch.close());
  return { watch, log, calls, directory, path, replaced: (count: number) => calls.said(/replaced/, count) };
}

test('tells once for each thing that takes the place of its file', async () => {
  const { path, directory, calls, replaced } = await watchFile();
  await writeFile(join(directory, 'other'), '');
  await rename(path, `${path}.aside`);
  await replaced(1);
  await writeFile(path, 'another');
  await replaced(2);
  await writeFile(path, 'the same one, changed');
  await rename(`${path}.aside`, path); // its own again
  await rm(path);
  await replaced(3);
  expect(calls.entries).toHaveLength(3);
});

test('tells of a directory that is removed, and follows its name', async () => {
  const { directory, path, replaced } = await watchFile();
  await rename(directory, `${directory}2`);
  await replaced(1);
  await rm(`${directory}2`, { recursive: true });
  expect(lstatIdentitySync(path)).toBeUndefined();
});

test('sees what happened before there was a watch', async () => {
  const directory = await tempDir();
  const path = join(directory, 'mine');
  await writeFile(path, '');
  const own = lstatIdentitySync(path)!;
  await rename(path, `${path}.aside`);
  const calls = new LogBook();
  const watch = new PathWatch(
    path,
    own,
    () => calls.log('replaced', 'info'),
    () => {},
  );
  onTestFinished(() => watch.close());
  await calls.said(/replaced/, 1);
});

test('looks from time to time where there is nothing to watch', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const directory = join(await tempDir(), 'missing');
  const [log, calls] = [new LogBook(), new LogBook()];
  const own = { dev: '1', ino: '2' };
  const watch = new PathWatch(join(directory, 'mine'), own, () => calls.log('replaced', 'info'), log.log);
  onTestFinished(() => watch.close());
  await log.said(/ENOENT/, 1);
  await calls.said(/replaced/, 1);
  await mkdir(directory);
  await writeFile(join(directory, 'mine'), '');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(calls.entries).toHaveLength(2);
});

test('is silent once closed', async () => {
  const { watch, path, calls } = await watchFile();
  watch.close();
  await rm(path);
  await new Promise((resolve) => setImmediate(resolve));
  expect(calls.entries).toEqual([]);
});
