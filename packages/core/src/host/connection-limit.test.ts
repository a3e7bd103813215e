import { expect, it } from 'vitest';
import { ConnectionLimit } from './connection-limit.ts';

it('lets so many in, the others in their order, and forgets those who gave up', async () => {
  const limit = new ConnectionLimit(2);
  const begun: number[] = [];
  const leave = new Map<number, () => void>();
  const enter = (number: number) =>
    limit.enter((left) => {
      begun.push(number);
      leave.set(number, left);
    });
  const [, , giveUp] = [enter(1), enter(2), enter(3)];
  enter(4);
  expect(begun).toEqual([]);
  await Promise.resolve();
  expect(begun).toEqual([1, 2]);
  giveUp!();
  leave.get(1)!();
  leave.get(1)!();
  expect(begun).toEqual([1, 2, 4]);
  enter(5);
  leave.get(2)!();
  expect(begun).toEqual([1, 2, 4, 5]);
});
