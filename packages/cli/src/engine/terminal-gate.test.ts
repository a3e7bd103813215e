import { expect, it } from 'vitest';
import { AS_BEFORE, DROP_TYPED, FOR_A_PROMPT, SETTINGS, TerminalGate } from './terminal-gate.ts';

const BEFORE = 'settings of before';
const OWN_SETTINGS = 'settings before the target';

function held(isSettled = () => true) {
  const done: string[] = [];
  let now = 0;
  const run = async (script: string, ...words: string[]) => {
    if (script === SETTINGS) return OWN_SETTINGS;
    done.push(words.length > 0 ? `${script} ${words}` : script);
    return '';
  };
  const query = async (timeoutMs: number) => {
    done.push(`query ${timeoutMs}`);
    return { settings: BEFORE, isSettled: isSettled() };
  };
  const gate = new TerminalGate(run, () => now, query);
  gate.readBy({
    stop: async () => void done.push('stop'),
    goOn: () => void done.push('go on'),
    end: () => void done.push('end'),
  });
  const pass = (ms: number) => {
    now += ms;
  };
  return { gate, done, pass };
}

it('leaves what was typed during a use of a key that nobody can have been asked about', async () => {
  const { gate, done, pass } = held();
  await gate.hold();
  pass(20);
  await gate.release();
  expect(done).toEqual([
    'stop',
    'query 5000',
    `${FOR_A_PROMPT} ${BEFORE}`,
    `${AS_BEFORE} ${BEFORE}`,
    'go on',
  ]);
});

it('throws away what was typed while somebody may have been asked, before anything is read', async () => {
  const { gate, done, pass } = held();
  await gate.hold();
  pass(60);
  await gate.release();
  expect(done).toEqual([
    'stop',
    'query 5000',
    `${FOR_A_PROMPT} ${BEFORE}`,
    DROP_TYPED,
    `${AS_BEFORE} ${BEFORE}`,
    'go on',
  ]);
});

it('stays closed for the next use that begins before the last is over, or while it is opened', async () => {
  const { gate, done, pass } = held();
  await gate.hold();
  await gate.hold();
  pass(60);
  await gate.release();
  expect(done).toEqual(['stop', 'query 5000', `${FOR_A_PROMPT} ${BEFORE}`]);
  const released = gate.release();
  await Promise.all([released, gate.hold()]);
  expect(done).not.toContain('go on');
  await gate.release();
  expect(done.slice(-3)).toEqual([DROP_TYPED, `${AS_BEFORE} ${BEFORE}`, 'go on']);
});

it('is never opened again when who held it has gone without a word', async () => {
  const { gate, done, pass } = held();
  await gate.begin();
  await gate.hold();
  pass(60);
  await gate.lose();
  await gate.lost;
  await gate.release();
  expect(done).toEqual([
    'stop',
    'query 5000',
    `${FOR_A_PROMPT} ${BEFORE}`,
    'stop',
    'end',
    `${AS_BEFORE} ${OWN_SETTINGS}`,
  ]);
  expect(gate.isLost).toBe(true);
});

it('asks again for a terminal that did not answer, and not as long', async () => {
  let isSettled = false;
  const { gate, done } = held(() => isSettled);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await gate.hold()).toBe(false);
  isSettled = true;
  expect(await gate.hold()).toBe(true);
  expect(await gate.hold()).toBe(true);
  expect(done.filter((step) => step.startsWith('query'))).toEqual(['query 5000', 'query 1000']);
});
