import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Lifetime, type LifetimeOptions } from './lifetime.ts';

const MINUTE = 60_000;

function lifetime(options: Partial<LifetimeOptions>) {
  vi.useFakeTimers({ now: 0 });
  onTestFinished(() => void vi.useRealTimers());
  const ends: string[] = [];
  const made = new Lifetime({ lastUse: () => 0, end: (why) => ends.push(why), ...options });
  return { made, ends };
}

const at = (ms: number) => new Date(ms).toISOString();

describe('a bridge for a time', () => {
  it('ends then', () => {
    const { made, ends } = lifetime({ until: at(10 * MINUTE) });
    expect(made.endsAt?.toISOString()).toBe(at(10 * MINUTE));
    vi.advanceTimersByTime(10 * MINUTE - 1);
    expect(ends).toEqual([]);
    expect(made.over).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(ends).toEqual([expect.stringMatching(/--for/)]);
    expect(made.over).toMatchObject({ code: 'TIME_OVER' });
  });

  it('ends soon after a sleep that was longer, and before that no key is used', () => {
    const { made, ends } = lifetime({ until: at(600 * MINUTE) });
    vi.setSystemTime(700 * MINUTE);
    expect(made.over).toMatchObject({ code: 'TIME_OVER' });
    vi.advanceTimersByTime(MINUTE);
    expect(ends).toHaveLength(1);
  });

  it('can be given more time, or all of it', () => {
    const { made, ends } = lifetime({ until: at(MINUTE) });
    made.renew(at(5 * MINUTE));
    vi.advanceTimersByTime(4 * MINUTE);
    made.renew(undefined);
    vi.advanceTimersByTime(4 * MINUTE);
    expect(ends).toEqual([]);
    expect(made.endsAt).toBeUndefined();
  });
});

describe('a bridge that ends when it is idle', () => {
  it('ends when no key was used for so long', () => {
    let lastUse = 0;
    const { made, ends } = lifetime({ idleSeconds: 120, lastUse: () => lastUse });
    vi.advanceTimersByTime(MINUTE);
    lastUse = MINUTE;
    expect(made.endsAt?.toISOString()).toBe(at(3 * MINUTE));
    vi.advanceTimersByTime(MINUTE + 30_000);
    expect(ends).toEqual([]);
    vi.advanceTimersByTime(30_000);
    expect(ends).toEqual([expect.stringMatching(/--idle/)]);
    expect(made.over).toBeUndefined();
  });
});

it('a bridge without either stays', () => {
  const { made, ends } = lifetime({});
  vi.advanceTimersByTime(10_000 * MINUTE);
  expect(made.endsAt).toBeUndefined();
  expect(ends).toEqual([]);
});
