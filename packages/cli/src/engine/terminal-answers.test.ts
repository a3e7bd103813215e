import { expect, it } from 'vitest';
import { TerminalAnswers } from './terminal-answers.ts';

/** A terminal's answers to queries. */
function answered(queries: string): string {
  return [...queries.matchAll(/\x1b\[([56])n/g)]
    .map(([, which]) => (which === '5' ? '\x1b[0n' : '\x1b[12;120R'))
    .join('');
}

it('have come when the last is there, however they are split, and whatever is typed between them', () => {
  const answers = new TerminalAnswers();
  const typed = `${answered(answers.queries)}`.replaceAll('n', 'nab');
  const ends = [...typed].map((character) => answers.take(character));
  expect(ends.indexOf(true)).toBe(typed.lastIndexOf(/[nR]/.exec([...typed].reverse().join(''))![0]));
});

it('to queries that were written before are none of them', () => {
  const answers = new TerminalAnswers();
  const before = new TerminalAnswers().queries + answers.queries.slice(0, -'\x1b[5n'.length);
  expect(answers.take(answered(before))).toBe(false);
  expect(answers.take(answered(answers.queries))).toBe(true);
});
