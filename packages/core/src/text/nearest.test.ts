import { describe, expect, it } from 'vitest';
import { nearest } from './nearest.ts';

describe('nearest', () => {
  it.each([
    ['stauts', ['up', 'status', 'shell'], 'status'],
    ['pu', ['up', 'down'], 'up'],
    ['lgo', ['log', 'down'], 'log'],
    ['My-Box', ['my-box'], 'my-box'],
    ['web', ['wb', 'web1', 'worker'], 'wb'],
    ['x', ['up', 'log'], undefined],
    ['something', ['up', 'status'], undefined],
    ['', ['up'], undefined],
  ])('to %s among %j is %s', (word, known, expected) => expect(nearest(word, known)).toBe(expected));
});
