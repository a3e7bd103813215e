import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test, vi } from 'vitest';
import { PlaceWatch } from './place-watch.ts';

/** A watch whose calls can be awaited. */
function watchPlace(path: string) {
  const book = new LogBook();
  const calls = new LogBook();
  const watch = new PlaceWatch(path, () => calls.log('changed', 'info'), book.log);
  onTestFinished(() => watch.close());
  return { watch, book, changed: (count: number) => calls.said(/changed/, count), calls };
}

test('tells of its own name alone, and of its directory', async () => {
  const dir = join(await tempDir(), 'd');
  await mkdir(dir);
  const { changed, calls } = watchPlace(join(dir, 'mine'));
  await writeFile(join(dir, 'other'), '');
  await writeFile(join(dir, 'mine'), '');
  await changed(1);
  const before = calls.entries.length;
  await rename(dir, `${dir}2`);
  await changed(before + 1);
});

test('looks from time to time where there is nothing to watch, until it is renewed', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const dir = join(await tempDir(), 'd');
  const { watch, book, calls, changed } = watchPlace(join(dir, 'mine'));
  expect(book.text).toContain('ENOENT');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(calls.entries).toHaveLength(1);
  await mkdir(dir);
  watch.renew();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls.entries).toHaveLength(1);
  await writeFile(join(dir, 'mine'), '');
  await changed(2);
});

test('is silent once closed, also when renewed after that', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { watch, calls } = watchPlace(join(await tempDir(), 'missing', 'mine'));
  watch.close();
  watch.renew();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls.entries).toEqual([]);
});
