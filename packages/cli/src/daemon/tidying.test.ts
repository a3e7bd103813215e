import { describe, expect, it } from 'vitest';
import { Tidying } from './tidying.ts';

/** `sessions` one after the other; then nobody comes for a while. */
async function after(sessions: number, meanwhile?: (tidying: Tidying) => void): Promise<number> {
  let collections = 0;
  const tidying = new Tidying(() => {
    collections += 1;
  }, 1);
  for (let count = 0; count < sessions; count++) {
    tidying.began();
    tidying.quiet();
  }
  meanwhile?.(tidying);
  // Timers fire in the order of their times.
  await new Promise((resolve) => setTimeout(resolve, 20));
  return collections;
}

describe('memory is given back', () => {
  it('once, after many sessions', async () => {
    expect(await after(500)).toBe(1);
    expect(await after(1_400)).toBe(1);
  });

  it('not after a few', async () => {
    expect(await after(499)).toBe(0);
  });

  it('not while somebody is served', async () => {
    expect(await after(500, (tidying) => tidying.began())).toBe(0);
  });
});
