import { expect, it } from 'vitest';
import { AbandonedPace } from './abandoned-pace.ts';

it('lets a burst pass, and rests for what is beyond it', () => {
  let now = 0;
  const pace = new AbandonedPace(() => now);
  const abandon = (count: number) => {
    for (let left = count; left > 0; left--) pace.count();
    return pace.rest();
  };
  expect(abandon(0)).toBe(0);
  expect(abandon(2_000)).toBe(0);
  expect(abandon(500)).toBe(500);
  now += 500;
  expect(abandon(1)).toBe(1);
  now += 1_001;
  expect(abandon(1_000)).toBe(0);
  expect(abandon(60_000)).toBe(2_000);
  now += 1_000_000;
  expect(abandon(2_000)).toBe(0);
});
