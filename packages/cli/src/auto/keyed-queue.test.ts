import { expect, it } from 'vitest';
import { KeyedQueue } from './keyed-queue.ts';

/** A job that lasts until it is told to end. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('does a bounded number at a time', async () => {
  const queue = new KeyedQueue(2);
  const gates = [gate(), gate(), gate()];
  const begun: number[] = [];
  gates.forEach(({ opened }, i) => {
    queue.add(String(i), () => {
      begun.push(i);
      return opened;
    });
  });
  expect(begun).toEqual([0, 1]);
  gates[1]!.open();
  await turn();
  expect(begun).toEqual([0, 1, 2]);
  gates[0]!.open();
  gates[2]!.open();
  await queue.close();
});

it('does what concerns one thing one after the other, and the last of what waits', async () => {
  const queue = new KeyedQueue(9);
  const first = gate();
  const done: string[] = [];
  queue.add('a', () => first.opened);
  queue.add('a', async () => void done.push('second'));
  queue.add('a', async () => void done.push('third'));
  queue.add('b', async () => void done.push('other'));
  await turn();
  expect(done).toEqual(['other']);
  first.open();
  await turn();
  expect(done).toEqual(['other', 'third']);
});

it('begins nothing more once it is closed', async () => {
  const queue = new KeyedQueue(1);
  const first = gate();
  let isDone = false;
  queue.add('a', () => first.opened);
  queue.add('b', async () => {
    isDone = true;
  });
  const closed = queue.close();
  first.open();
  await closed;
  await turn();
  expect(isDone).toBe(false);
});
