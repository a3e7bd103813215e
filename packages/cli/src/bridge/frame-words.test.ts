import { describe, expect, it } from 'vitest';
import { frameWords } from './frame-words.ts';

describe('what a socket server tells of a frame', () => {
  it.each([
    ['frame > 2 5 9', 'session 5: sent OPEN of 9 bytes'],
    ['frame < 1 5 1024', 'session 5: received DATA of 1024 bytes'],
    ['frame < 11 3 40', 'call 3: received CALL of 40 bytes'],
    ['frame > 12 3 12', 'call 3: sent RESULT of 12 bytes'],
    ['frame < 14 1 80', 'socket type 1: received TABLE of 80 bytes'],
    ['frame > 9 0 0', 'sent PING of 0 bytes'],
  ])('%s: %s', (line, words) => {
    expect(frameWords(line)).toBe(words);
  });

  it.each([
    'frame',
    'frame > 99 5 9',
    'frame = 1 5 9',
    'frame > 1 5 9 9',
    ' frame > 1 5 9',
    'gpg: frame > 1 5 9',
    'frame > 1 5 123456789',
  ])('nothing: %s', (line) => {
    expect(frameWords(line)).toBeUndefined();
  });
});
