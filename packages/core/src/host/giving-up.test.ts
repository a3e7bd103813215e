import { describe, expect, it } from 'vitest';
import { Attempt, type GivingUp } from './giving-up.ts';

/** Both of what can be given to somebody who may have to give up. */
const KINDS: [string, () => { signal: GivingUp; abort(): void }][] = [
  [
    'an attempt',
    () => {
      const attempt = new Attempt();
      return { signal: attempt, abort: () => attempt.abort() };
    },
  ],
  [
    'an AbortController',
    () => {
      const controller = new AbortController();
      return { signal: controller.signal, abort: () => controller.abort() };
    },
  ],
];

describe.each(KINDS)('%s that is given up', (_name, create) => {
  it('tells those who listen, once, in their order', () => {
    const { signal, abort } = create();
    const told: string[] = [];
    signal.addEventListener('abort', () => told.push(`first, ${signal.aborted}`));
    signal.addEventListener('abort', () => told.push('second'));
    expect(signal.aborted).toBe(false);
    abort();
    abort();
    expect(told).toEqual(['first, true', 'second']);
  });

  it('tells nobody who listens twice more than once, nor who no longer listens', () => {
    const { signal, abort } = create();
    let told = 0;
    const twice = () => void told++;
    const never = () => void (told += 100);
    for (const listener of [twice, twice, never]) signal.addEventListener('abort', listener);
    signal.removeEventListener('abort', never);
    signal.removeEventListener('abort', () => {});
    abort();
    expect(told).toBe(1);
  });

  it('tells nobody who comes later', () => {
    const { signal, abort } = create();
    abort();
    let told = 0;
    signal.addEventListener('abort', () => void told++);
    abort();
    expect(told).toBe(0);
  });

  it('may be told to somebody who stops listening at that, and takes another along', () => {
    const { signal, abort } = create();
    const told: string[] = [];
    const two = () => told.push('two');
    const one = () => {
      told.push('one');
      for (const listener of [one, two]) signal.removeEventListener('abort', listener);
    };
    for (const listener of [one, two, () => told.push('three')]) signal.addEventListener('abort', listener);
    abort();
    expect(told).toEqual(['one', 'three']);
  });
});
