import { runOk } from '@gpg-bridge/test-support/process';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { shellQuote } from './shell-quote.ts';

it('quotes words so that a shell takes them as they are', async () => {
  const words = fc.sample(fc.string({ unit: 'binary' }), 300).filter((word) => !word.includes('\0'));
  words.push('', "it's", '$HOME', '`id`', '\\', '-n', '*', '~', '!x', 'a\nb');
  const printed = await runOk('sh', ['-c', `printf '%s\\0' ${words.map(shellQuote).join(' ')}`]);
  expect(printed.split('\0').slice(0, -1)).toEqual(words);
});
