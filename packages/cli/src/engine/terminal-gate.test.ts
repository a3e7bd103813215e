import { expect, it } from 'vitest';
import { AS_BEFORE, DROP_TYPED, FOR_A_PROMPT, SETTINGS, TerminalGate } from './terminal-gate.ts';

const BEFORE = 'settings of before';
const OWN_SETTINGS = 'settings before the target';

function held(isInFront = async () => true) {
  const done: string[] = [];
  let now = 0;
  const run = async (script: string, ...words: string[]) => {
    if (script === SETTINGS) return OWN_SETTINGS;
    done.push(words.length > 0 ? `${script} ${words}` : script);
    return script === FOR_A_PROMPT ? BEFORE : '';
  };
  const gate = new TerminalGate(run, () => now, isInFront);
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
  expect(done).toEqual(['stop', FOR_A_PROMPT, `${AS_BEFORE} ${BEFORE}`, 'go on']);
});

it('throws away what was typed while somebody may have been asked, before anything is read', async () => {
  const { gate, done, pass } = held();
  await gate.hold();
  pass(60);
  await gate.release();
  expect(done).toEqual(['stop', FOR_A_PROMPT, DROP_TYPED, `${AS_BEFORE} ${BEFORE}`, 'go on']);
});

it('stays closed for the next use that begins before the last is over, or while it is opened', async () => {
  const { gate, done, pass } = held();
  await gate.hold();
  await gate.hold();
  pass(60);
  await gate.release();
  expect(done).toEqual(['stop', FOR_A_PROMPT]);
  const released = gate.release();
  await Promise.all([released, gate.hold()]);
  expect(done).not.toContain('go on');
  await gate.release();
  expect(done.slice(-3)).toEqual([DROP_TYPED, `${AS_BEFORE} ${BEFORE}`, 'go on']);
});

it('leaves the terminal of a job in the background to the program in front', async () => {
  const { gate, done, pass } = held(async () => false);
  await gate.begin();
  await gate.hold();
  pass(60);
  await gate.release();
  await gate.hold();
  await gate.lose();
  await gate.lost;
  expect(done).toEqual(['stop', 'go on', 'stop', 'stop', 'end']);
});

it('gives back the settings of a job that was brought to the front meanwhile', async () => {
  let isInFront = false;
  const { gate, done, pass } = held(async () => isInFront);
  await gate.hold();
  isInFront = true;
  pass(60);
  await gate.release();
  expect(done).toEqual(['stop', DROP_TYPED, `${AS_BEFORE} ${OWN_SETTINGS}`, 'go on']);
});

it('is never opened again when who held it has gone without a word', async () => {
  const { gate, done, pass } = held();
  await gate.begin();
  await gate.hold();
  pass(60);
  await gate.lose();
  await gate.lost;
  await gate.release();
  expect(done).toEqual(['stop', FOR_A_PROMPT, 'stop', 'end', `${AS_BEFORE} ${OWN_SETTINGS}`]);
  expect([gate.isLost, gate.hasEnded]).toEqual([true, true]);
});

it('has ended nothing where nothing read the terminal', async () => {
  const gate = new TerminalGate(async () => '');
  await gate.hold();
  await gate.lose();
  expect([gate.isLost, gate.hasEnded]).toEqual([true, false]);
});
