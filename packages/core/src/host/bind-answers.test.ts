import { expect, it } from 'vitest';
import { BindAnswers } from './bind-answers.ts';

const [FAILURE, SUCCESS] = [5, 6];

it('tells what the agent answers, once for each change', () => {
  const told: (number | undefined)[] = [];
  const answers = new BindAnswers((type) => told.push(type));
  for (const type of [SUCCESS, SUCCESS, FAILURE, undefined, undefined, SUCCESS]) answers.learn(type);
  expect(told).toEqual([SUCCESS, FAILURE, undefined, SUCCESS]);
});

it('tells an answer that turned out otherwise no more, until the agent has answered differently', () => {
  const told: (number | undefined)[] = [];
  const answers = new BindAnswers((type) => told.push(type));
  answers.learn(SUCCESS);
  answers.differed(SUCCESS);
  answers.learn(SUCCESS);
  expect(told).toEqual([SUCCESS, undefined]);
  answers.learn(FAILURE);
  answers.learn(SUCCESS);
  expect(told).toEqual([SUCCESS, undefined, FAILURE, SUCCESS]);
});

it('goes on with another answer that it has learned meanwhile', () => {
  const told: (number | undefined)[] = [];
  const answers = new BindAnswers((type) => told.push(type));
  answers.learn(SUCCESS);
  answers.learn(FAILURE);
  answers.differed(SUCCESS); // of a client that was told before
  expect(told).toEqual([SUCCESS, FAILURE]);
});
