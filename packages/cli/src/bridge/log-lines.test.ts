import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readLines } from './log-lines.ts';

async function linesOf(chunks: readonly (string | Buffer)[]) {
  const stream = new PassThrough();
  const lines: string[] = [];
  const last = readLines(stream, (line) => lines.push(line) > 0);
  const ended = once(stream, 'end');
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await ended;
  return { lines, last: last() };
}

describe('readLines', () => {
  it('tells lines however they arrive, and which were the last', async () => {
    expect(await linesOf(['zero\n', 'on', 'e\ntw', 'o\r\n\n  \nthree'])).toEqual({
      lines: ['zero', 'one', 'two', 'three'],
      last: 'one; two; three',
    });
    expect(await linesOf([])).toEqual({ lines: [], last: '' });
  });

  it('makes lines fit for a terminal, and short', async () => {
    const { lines } = await linesOf(['\x1b[31mred\x07\r\n', `${'x'.repeat(100_000)}\n`]);
    expect(lines[0]).toBe('\\x1b[31mred\\x07');
    expect(lines[1]!.length).toBeLessThan(600);
  });

  it('keeps no more than a line of what has no end', async () => {
    const { lines } = await linesOf(Array(200).fill('x'.repeat(10_000)));
    expect(lines).toHaveLength(1);
    expect(lines[0]!.length).toBeLessThan(600);
  });

  it('never lets a control character through', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1 })), async (chunks) => {
        const { lines } = await linesOf(chunks.map((chunk) => Buffer.from(chunk)));
        for (const line of lines) expect(line).not.toMatch(/[\x00-\x1f\x7f-\x9f]/);
      }),
      { numRuns: 50 },
    );
  });
});
