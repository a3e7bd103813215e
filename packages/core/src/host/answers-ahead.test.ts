import { expect, it } from 'vitest';
import { AnswersAhead } from './answers-ahead.ts';
import { FORBIDDEN } from './decide-command.ts';

it('keeps no answer to a line that must not reach the agent, so that no target fills the table', () => {
  const answers = new AnswersAhead({});
  answers.connected({ version: 'D 2.2.40\nOK\n', socket: 's' }, 'OK Pleased to meet you\n');
  const [before, count] = [answers.version, answers.table.entries.length];
  for (const line of [
    'INPUT FD=3',
    'OUTPUT FD=3',
    'LISTTRUSTED',
    'OPTION ttyname=/dev/tty',
    'KEYWRAP_KEY --export',
  ]) {
    answers.learn(line, FORBIDDEN);
  }
  expect([answers.version, answers.table.entries.length]).toEqual([before, count]);
  answers.learn('SCD SERIALNO', FORBIDDEN);
  expect(answers.table.entries).toHaveLength(count + 1);
});
