import { describe, expect, it } from 'vitest';
import {
  composeSelector,
  labelSelector,
  matchesPattern,
  nameSelector,
  selectorName,
  WrongSelector,
} from './selector.ts';

describe('the words of a rule', () => {
  it.each([
    ['dev-*', { kind: 'name', pattern: 'dev-*' }],
    ['podman:dev', { kind: 'name', pattern: 'dev', engine: 'podman' }],
    ['docker:*', { kind: 'name', pattern: '*', engine: 'docker' }],
  ])('%s are a pattern of names', (text, selector) => {
    expect(nameSelector(text)).toEqual(selector);
    expect(selectorName(nameSelector(text))).toBe(text);
  });

  it('are a project or a label after their options', () => {
    expect(selectorName(composeSelector('shop'))).toBe('--compose shop');
    expect(selectorName(labelSelector('a.b=c=d e'))).toBe('--label a.b=c=d e');
    expect(labelSelector('a.b=c=d e')).toEqual({ kind: 'label', key: 'a.b', value: 'c=d e' });
    expect(labelSelector('a=')).toEqual({ kind: 'label', key: 'a', value: '' });
  });

  it.each(['', '-x', 'a b', 'ssh:box', 'docker:', 'a/b', 'a\x1b'])('%j is no pattern of names', (text) => {
    expect(() => nameSelector(text)).toThrow(WrongSelector);
  });

  it.each(['a', '=b', 'a b=c', 'a=\x1b[2J', 'a=\u202e'])('%j is no label', (text) => {
    expect(() => labelSelector(text)).toThrow(WrongSelector);
  });

  it.each(['', 'a b', '../x'])('%j is no project', (text) => {
    expect(() => composeSelector(text)).toThrow(WrongSelector);
  });
});

describe('a pattern', () => {
  it.each([
    ['web', 'web', true],
    ['web', 'web-1', false],
    ['web*', 'web-1', true],
    ['*', '', true],
    ['*-web-*', 'shop-web-1', true],
    ['*-web-*', 'shop-db-1', false],
    ['we?', 'web', true],
    ['we?', 'we', false],
    ['a*b*c', 'aXbYbZc', true],
    ['a*b*c', 'aXbYbZ', false],
    ['.', 'x', false],
    ['', '', true],
    ['', 'x', false],
  ])('%j and %j: %s', (pattern, text, expected) => {
    expect(matchesPattern(pattern, text)).toBe(expected);
  });

  it('takes no time that grows with its stars', () => {
    expect(matchesPattern(`${'*a'.repeat(100)}b`, 'a'.repeat(4_000))).toBe(false);
  });
});
