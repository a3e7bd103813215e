import { expect, it } from 'vitest';
import { judge } from './transcript.ts';

const EVERYTHING = 'OK Pleased to meet you\nD abc\nOK\nOK closing connection\n';
const REFUSAL = 'ERR 67108941 No agent running <GPG Agent> - because\n';

it.each([
  [EVERYTHING, 'everything'],
  [EVERYTHING.replace('you', 'you, process 7'), 'everything'],
  ['', 'error'],
  ['OK Ple', 'error'],
  ['OK Pleased to meet you\n', 'error'],
  [`OK Pleased to meet you\n${REFUSAL}`, 'error'],
  [`OK Pleased to meet you\nD ab\n${REFUSAL}`, 'error'],
  [`OK Pleased to meet you\nD ab${REFUSAL}`, 'wrong'],
  [`OK Pleased to meet you\nD abc\nOK\nOK clos${REFUSAL}`, 'wrong'],
  [`OK Pleased to meet you\nD abc\nO\n${REFUSAL}`, 'wrong'],
  ['OK Pleased to meet you\nD abx\n', 'wrong'],
  ['OK Pleased to meet you\nD ab\nOK\n', 'wrong'],
  [`${EVERYTHING}OK\n`, 'wrong'],
  [`${EVERYTHING}${REFUSAL}`, 'wrong'],
  [`OK GPG Bridge - because\n${REFUSAL}${REFUSAL}OK closing connection\n`, 'error'],
  [`OK GPG Bridge - because\nD abc\nOK\n`, 'wrong'],
  [`OK Pleased to meet you\n${REFUSAL}OK closing connection\n`, 'error'],
  [`OK Pleased to meet you\n${REFUSAL}${REFUSAL}OK closing connection\n`, 'wrong'],
  [`OK Pleased to meet you\nD abc\nOK\n${REFUSAL}OK closing connection\n`, 'wrong'],
  [`OK Pleased to meet you\nD ab\n${REFUSAL}OK closing connection\n`, 'wrong'],
])('judges %j as %s', (transcript, verdict) => {
  expect(judge(transcript, EVERYTHING)).toBe(verdict);
});
