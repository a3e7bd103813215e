import { describe, expect, it } from 'vitest';
import { LineQueue, type ObservedLine } from './line-queue.ts';

const line = (command: string, data = false): ObservedLine => ({ command, data, key: undefined });
const DATA = line('D', true);

describe('LineQueue', () => {
  it('gives lines back in order, equal ones in one entry', () => {
    const queue = new LineQueue();
    for (const next of [line('A'), line('A'), DATA, DATA, DATA, line('B')]) queue.push({ ...next });
    expect([queue.length, queue.runs]).toEqual([6, 3]);
    expect([queue.shift(), queue.shift()]).toEqual([line('A'), line('A')]);
    expect(queue.dataIsNext).toBe(true);
    expect(queue.shiftRun()).toEqual(DATA);
    expect(queue.dataIsNext).toBe(false);
    expect(queue.shift()).toEqual(line('B'));
    expect([queue.length, queue.shift(), queue.shiftRun(), queue.dataIsNext]).toEqual([
      0,
      undefined,
      undefined,
      false,
    ]);
  });

  it('stays bounded, whatever is sent early, and loses count of no command', () => {
    const queue = new LineQueue();
    for (let i = 0; i < 100_000; i++) queue.push(line(i % 2 ? 'A' : 'B'));
    expect(queue.runs).toBeLessThanOrEqual(4097);
    expect(queue.length).toBe(100_000);
    const words = new Map<string, number>();
    for (let next = queue.shift(); next; next = queue.shift()) {
      words.set(next.command, (words.get(next.command) ?? 0) + 1);
    }
    expect(Object.fromEntries(words)).toEqual({ A: 2048, B: 2048, '?': 100_000 - 4096 });
    expect([queue.length, queue.runs]).toEqual([0, 0]);
  });

  it('passes over data beyond the limit', () => {
    const queue = new LineQueue();
    for (let i = 0; i < 10_000; i++) queue.push(i % 2 ? DATA : line('A'));
    expect(queue.runs).toBeLessThanOrEqual(4097);
    expect(queue.length).toBe(4096 + (10_000 - 4096) / 2);
  });
});
