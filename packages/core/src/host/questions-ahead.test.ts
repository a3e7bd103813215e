import { expect, test } from 'vitest';
import { AnswersAhead } from './answers-ahead.ts';
import type { GpgGrant } from './gpg-grant.ts';
import { RecentQuestions } from './questions-ahead.ts';

const [MINE, OTHER] = ['A'.repeat(40), 'B'.repeat(40)];

function asked(recent: RecentQuestions): string[] {
  return recent.questions.bytes.toString('latin1').split('\n').slice(0, -1);
}

test('what a target used lately is asked for its next session, made anew only when that has changed', () => {
  const answers = new AnswersAhead({});
  const target: { grant?: GpgGrant } = {};
  const recent = new RecentQuestions(answers, target);
  expect(recent.questions.count).toBe(0);
  answers.used(`HAVEKEY ${MINE}`);
  const before = recent.questions;
  expect(asked(recent)).toEqual([`HAVEKEY ${MINE}`]);
  answers.used(`HAVEKEY ${MINE}`);
  expect(recent.questions).toBe(before);
  answers.used(`HAVEKEY ${OTHER}`);
  expect(asked(recent)).toEqual([`HAVEKEY ${MINE}`, `HAVEKEY ${OTHER}`]);
  // A target that is narrowed to a key meanwhile asks about no other.
  target.grant = { keygrips: new Set([MINE]) };
  expect(asked(recent)).toEqual([`HAVEKEY ${MINE}`]);
});

test('what was used lately stays when something older has to go', () => {
  const answers = new AnswersAhead({});
  const line = (number: number) => `HAVEKEY ${String(number).padStart(40, '0')}`;
  for (let number = 0; number < 64; number++) answers.used(line(number));
  answers.used(line(0));
  answers.used(line(64));
  expect(answers.recent).toHaveLength(64);
  expect(answers.recent).toContain(line(0));
  expect(answers.recent).not.toContain(line(1));
});
