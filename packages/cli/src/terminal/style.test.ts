import { describe, expect, it } from 'vitest';
import { isDecorated, spinnerLine, styles } from './style.ts';

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

  it('end where their text does, also within each other', () => {
    const { bold, red } = styles({ isTTY: true }, {});
    expect(bold(`a ${red('b')} c`)).toBe('\x1b[1ma \x1b[31mb\x1b[39m c\x1b[22m');
  });

  it('leave text alone elsewhere', () => {
    const { bold, red } = styles({ isTTY: false });
    expect(bold(red('text'))).toBe('text');
  });
});

describe('the line of a spinner', () => {
  it.each([
    [80, '⠋ connecting to box…'],
    [21, '⠋ connecting to box…'],
    [20, '⠋ connecting to bo…'],
    [1, '⠋…'],
  ])('fits into %d columns', (columns, line) => {
    expect(spinnerLine('⠋', 'connecting to box', columns)).toBe(line);
  });
});
