import { describe, expect, it } from 'vitest';
import { PacedLines } from './paced-lines.ts';

function reader(maxLine = 500) {
  const told: string[] = [];
  let now = 0;
  const lines = new PacedLines(
    maxLine,
    (line, end) => told.push(line + end),
    () => now,
  );
  return {
    told,
    push: (text: string) => lines.push(Buffer.from(text, 'latin1')),
    end: () => lines.end(),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('lines that are read by budget', () => {
  it('are told as they are while they are few', () => {
    const { told, push, end } = reader();
    expect(push('zero\non')).toBe(0);
    expect(push('e\n\ntwo')).toBe(0);
    end();
    expect(told).toEqual(['zero\n', 'one\n', '\n', 'two']);
  });

  it('are cut where they are too long', () => {
    const { told, push, end } = reader(3);
    push('abcdef');
    push('ghi\nklmn\nxyz');
    end();
    expect(told).toEqual(['abc\n', 'klm\n', 'xyz']);
  });

  it('are left out when there are too many, with a count of what was, until there is room again', () => {
    const { told, push, pass } = reader();
    push('y\n'.repeat(10_000));
    const before = told.length;
    expect(before).toBeLessThan(2_001);
    push('y\n'.repeat(10_000));
    expect(told).toHaveLength(before);
    pass(1_000);
    push('half\nwhole\n');
    const bytes = 2 * (20_000 - before) + 'half\n'.length;
    expect(told.slice(before)).toEqual([`${bytes} bytes were left out: too many came\n`, 'whole\n']);
    expect(told.slice(0, before).every((line) => line === 'y\n')).toBe(true);
  });

  it('are told at the end of a flood: they say why a command ended', () => {
    const { told, push, end } = reader();
    push('y\n'.repeat(10_000));
    const before = told.length;
    push('y\n'.repeat(100_000));
    push('why\nit ended\n');
    end();
    expect(told[before]).toMatch(/^\d+ bytes were left out: too many came\n$/);
    expect(told.slice(-2)).toEqual(['why\n', 'it ended\n']);
  });

  it('make whoever reads them wait, so that a flood is not read as fast as it is written', () => {
    const { push, pass } = reader();
    const chunk = 'x'.repeat(65_536);
    let waited = 0;
    let read = 0;
    for (; waited < 10_000; read += chunk.length) {
      const ms = push(chunk);
      waited += ms;
      pass(ms);
    }
    expect(read).toBeLessThan(50 * 1024 * 1024);
    expect(read).toBeGreaterThan(30 * 1024 * 1024);
  });
});
