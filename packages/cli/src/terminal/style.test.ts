import { describe, expect, it } from 'vitest';
import { isDecorated, styles } from './style.ts';

describe('styles', () => {
  it.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [true, { TERM: 'dumb' }, false],
  ])('on a terminal (%s) with %j: %s', (isTTY, env, expected) => {
    expect(isDecorated({ isTTY }, env)).toBe(expected);
  });

  it('leave text alone elsewhere', () => {
    const { bold, red } = styles({ isTTY: false });
    expect(bold(red('text'))).toBe('text');
  });
});
