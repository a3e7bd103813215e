import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { endChild } from './end-child.ts';

it('ends a program that does not listen, and lets go of streams that its children hold', async () => {
  // The sleeper inherits both streams and outlives the shell.
  const child = spawn('sh', ['-c', 'trap "" TERM; sleep 60 & echo $!; while :; do sleep 1; done']);
  const [sleeper] = (await once(child.stdout, 'data')) as [Buffer];
  const closed = once(child, 'close');
  endChild(child, 10);
  expect(await closed).toEqual([null, 'SIGKILL']);
  process.kill(Number(sleeper), 'SIGKILL');
});

it('waits for nothing when the program has ended already', async () => {
  const child = spawn('true');
  child.stdout.resume();
  child.stderr.resume();
  await once(child, 'close');
  endChild(child);
  expect(child.listenerCount('close')).toBe(0);
});
