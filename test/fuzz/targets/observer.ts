import { LineQueue } from '@gpg-bridge/core/assuan/line-queue';
import { AssuanObserver } from '@gpg-bridge/core/assuan/observer';
import { UnavailableAgent } from '@gpg-bridge/core/assuan/unavailable-agent';
import { type FuzzTarget, must } from '../engine/target.ts';
import { isHarmless } from './harmless.ts';

/** The most entries that a queue of early lines may take, and one for all the others. */
const MAX_RUNS = 4_097;

/** What only watches a conversation, and what answers in place of an agent. */
export const observer: FuzzTarget = {
  name: 'observer',
  seeds: [
    '\x00OK hi\n\x01NOP\nPKSIGN\n\x00OK\nD x\nOK\n',
    `\x01SIGKEY ${'A'.repeat(40)}\nPKDECRYPT\nD x\nEND\nBYE\n\x00OK\nOK\nINQUIRE X\nOK\nOK closing\n`,
  ],
  words: [
    '\x00',
    '\x01',
    'OK\n',
    'ERR 67108963 x\n',
    'INQUIRE X\n',
    'PKSIGN\n',
    'D x\n',
    'END\n',
    'BYE\n',
    '\x1b',
  ],
  run(input) {
    const queue = new LineQueue();
    let operations = 0;
    let commands = 0;
    const watcher = new AssuanObserver(
      ({ command, key, durationMs }) => {
        operations += 1;
        must(/^(?:[A-Z_]{1,32}|\?|D)$/.test(command), 'a word that is no command would be logged');
        must(key === undefined || /^[0-9A-F]{40}$/.test(key), 'a key that is none would be logged');
        must(durationMs >= 0, 'a duration is negative');
      },
      { now: () => 0 },
    );
    const unavailable = new UnavailableAgent(input.toString());
    must(isHarmless(unavailable.greeting.toString().slice(0, -1)), 'a greeting would move a cursor');
    must(unavailable.greeting.length <= 1_001, 'a greeting is too long a line');
    for (let at = 0; at < input.length; ) {
      const end = input.indexOf(0x0a, at + 1) + 1 || input.length;
      const chunk = input.subarray(at + 1, end);
      if (input[at] === 0) watcher.fromAgent(chunk);
      else {
        watcher.fromClient(chunk);
        commands += chunk.length;
        queue.push({ command: chunk.toString('latin1', 0, 4), data: chunk[0] === 0x44, key: undefined });
        must(unavailable.answer(chunk).length <= 1_001 * 256, 'an answer is larger than it may be');
      }
      must(queue.runs <= MAX_RUNS, 'the queue grows without limit');
      at = end;
    }
    watcher.end();
    watcher.end();
    must(watcher.pending === undefined, 'a command is pending after the end');
    must(operations <= commands, 'more operations than there were commands');
    for (let left = queue.length; left > 0; left--) must(queue.shift() !== undefined, 'a line is missing');
    must(queue.length === 0 && queue.shift() === undefined, 'the queue is not empty');
  },
};
