import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';
import { notAnswering } from './daemon-process.ts';
import { filesBeside } from './state-dir.ts';

it('knows a daemon by its PID file, also by one that it took later, and no other process', async () => {
  const dir = await tempDir();
  const [first, second] = [join(dir, 'first.pid'), join(dir, 'second.pid')];
  const words = ['-e', 'console.log(); setInterval(() => {}, 1000)', 'serve', '--target=local:/x'];
  const child = spawn(process.execPath, [...words, `--pid-file=${first}`, '--user=dev']);
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data'); // it has its words by now
  const known = (pidFile: string) => notAnswering(filesBeside(pidFile), 'it hangs');

  await writeFile(first, `${child.pid}\n`);
  expect(known(first)).toMatchObject({ target: 'local:/x', user: 'dev', pid: child.pid });
  // The PID of another bridge's daemon, in a file that was left behind.
  await writeFile(second, `${child.pid}\n`);
  expect(known(second)).toBeUndefined();
  // It has followed the name of its target.
  await rm(first);
  expect(known(second)).toMatchObject({ pid: child.pid });
  await writeFile(second, `${process.pid}\n`);
  expect(known(second)).toBeUndefined();
});
