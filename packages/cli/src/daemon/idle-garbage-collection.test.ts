import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IdleGarbageCollection } from './idle-garbage-collection.ts';

const QUIET_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** `sessions` one after the other; then nobody comes for a long while. */
function after(sessions: number, meanwhile?: (collection: IdleGarbageCollection) => void): number {
  const collect = vi.fn();
  const collection = new IdleGarbageCollection(collect, QUIET_MS);
  for (let count = 0; count < sessions; count++) {
    collection.began();
    collection.quiet();
  }
  meanwhile?.(collection);
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
    expect(after(500, (collection) => collection.began())).toBe(0);
    const longSession = (collection: IdleGarbageCollection) => {
      collection.began();
      vi.advanceTimersByTime(5 * QUIET_MS);
      collection.quiet();
    };
    expect(after(500, longSession)).toBe(1);
  });

  it('not before nobody has come for a while', () => {
    const collect = vi.fn();
    const collection = new IdleGarbageCollection(collect, QUIET_MS);
    for (let count = 0; count < 600; count++) {
      collection.began();
      collection.quiet();
      vi.advanceTimersByTime(QUIET_MS / 2);
    }
    expect(collect).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2 * QUIET_MS);
    expect(collect).toHaveBeenCalledOnce();
  });
});
