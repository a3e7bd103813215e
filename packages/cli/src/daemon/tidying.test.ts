import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Tidying } from './tidying.ts';

const QUIET_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** `sessions` one after the other; then nobody comes for a long while. */
function after(sessions: number, meanwhile?: (tidying: Tidying) => void): number {
  const collect = vi.fn();
  const tidying = new Tidying(collect, QUIET_MS);
  for (let count = 0; count < sessions; count++) {
    tidying.began();
    tidying.quiet();
  }
  meanwhile?.(tidying);
  vi.advanceTimersByTime(10 * QUIET_MS);
  return collect.mock.calls.length;
}

describe('memory is given back', () => {
  it('once, after many sessions', () => {
    expect(after(500)).toBe(1);
    expect(after(1_400)).toBe(1);
  });

  it('not after a few', () => {
    expect(after(499)).toBe(0);
  });

  it('not while somebody is served, but afterwards', () => {
    expect(after(500, (tidying) => tidying.began())).toBe(0);
    const longSession = (tidying: Tidying) => {
      tidying.began();
      vi.advanceTimersByTime(5 * QUIET_MS);
      tidying.quiet();
    };
    expect(after(500, longSession)).toBe(1);
  });

  it('not before nobody has come for a while', () => {
    const collect = vi.fn();
    const tidying = new Tidying(collect, QUIET_MS);
    for (let count = 0; count < 600; count++) {
      tidying.began();
      tidying.quiet();
      vi.advanceTimersByTime(QUIET_MS / 2);
    }
    expect(collect).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2 * QUIET_MS);
    expect(collect).toHaveBeenCalledOnce();
  });
});
