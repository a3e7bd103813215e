import { Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { BridgeError } from '../errors.ts';
import type { OpenOutcome } from './open-agent.ts';
import { OpeningQueue } from './opening-queue.ts';

const agent = { socket: new Socket(), greeting: Buffer.from('OK\n') };
const hung = () => new BridgeError('AGENT_GREETING_TIMEOUT', { what: 'it', why: 'hangs', fix: 'Wait.' });

/** A queue whose attempts the test decides, and what became of `count` that were asked for. */
function asked(count: number) {
  const attempts: OpenOutcome[] = [];
  const seen: string[] = [];
  const queue = new OpeningQueue((outcome) => attempts.push(outcome));
  const signals = Array.from({ length: count }, () => new AbortController());
  signals.forEach(({ signal }, index) => {
    queue.open(
      { opened: () => seen.push(`${index} opened`), failed: ({ code }) => seen.push(`${index} ${code}`) },
      signal,
    );
  });
  return { attempts, seen, signals };
}

describe('connections in the making', () => {
  it('are a few at once, and the others follow in their order', () => {
    const { attempts, seen } = asked(40);
    expect(attempts).toHaveLength(32);
    for (let index = 0; index < 40; index++) attempts[index]!.opened(agent);
    expect(attempts).toHaveLength(40);
    expect(seen).toEqual(Array.from({ length: 40 }, (_, index) => `${index} opened`));
  });

  it('make room when they fail or are given up', () => {
    const { attempts, seen, signals } = asked(36);
    attempts[3]!.failed(hung());
    signals[4]!.abort();
    signals[35]!.abort();
    expect(attempts).toHaveLength(34);
    signals[5]!.abort();
    signals[6]!.abort();
    // The one that was given up while it waited was never tried.
    expect(attempts).toHaveLength(35);
    expect(seen).toEqual(['3 AGENT_GREETING_TIMEOUT']);
  });

  it('that wait for long fail with one that fails: an agent that hangs holds nobody for ever', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const { attempts, seen } = asked(100);
      vi.advanceTimersByTime(6_000);
      attempts[0]!.failed(hung());
      expect(seen).toHaveLength(1 + 68);
      expect(new Set(seen.map((text) => text.split(' ')[1]))).toEqual(new Set(['AGENT_GREETING_TIMEOUT']));
      expect(attempts).toHaveLength(32);
    } finally {
      vi.useRealTimers();
    }
  });
});
