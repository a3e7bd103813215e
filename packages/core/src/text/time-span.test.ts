import { expect, it } from 'vitest';
import { spanSeconds, spanText } from './time-span.ts';

it.each([
  ['30m', 1_800],
  ['2h', 7_200],
  ['1h30m', 5_400],
  ['90m', 5_400],
  ['45s', 45],
  ['1d', 86_400],
])('%s is %d seconds', (text, seconds) => {
  expect(spanSeconds(text)).toBe(seconds);
  expect(spanSeconds(spanText(seconds))).toBe(seconds);
});

it('says a time in one way', () => {
  expect(spanText(spanSeconds('90m')!)).toBe('1h30m');
  expect(spanText(spanSeconds('24h')!)).toBe('1d');
});

it.each(['', '0m', '5', 'm', '1h 30m', '30m1h', '-5m', '1.5h', '1w', 'soon', '9999999d'])(
  '%j is no time',
  (text) => expect(spanSeconds(text)).toBeUndefined(),
);
