import { describe, expect, it } from 'vitest';
import { KeyUseAttempt, type TargetUse, unrecordedUse } from './key-use-attempt.ts';

const USE = { time: 1, session: 1, command: 'PKSIGN', key: 'A' };

/** A target whose uses wait for a terminal. */
function attemptWith(confirm?: TargetUse['confirm']) {
  const events: string[] = [];
  let held = () => {};
  const holdTerminals = () =>
    new Promise<() => void>((resolve) => {
      events.push('asked');
      held = () => resolve(() => void events.push('released'));
    });
  const target: TargetUse = { ...unrecordedUse(), holdTerminals, ...(confirm ? { confirm } : {}) };
  return { attempt: new KeyUseAttempt(target, USE), target, events, held: () => held() };
}

describe('terminals during a use of a key', () => {
  it('are held before the agent hears of it, until it has answered', async () => {
    const { attempt, events, held } = attemptWith();
    const begun = Promise.resolve(attempt.begin()).then(() => events.push('begun'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(events).toEqual(['asked']);
    held();
    await begun;
    expect(events).toEqual(['asked', 'begun']);
    attempt.finish('ok', 1, 'ok');
    expect(events).toEqual(['asked', 'begun', 'released']);
  });

  it('are read while the client owes the data of an inquiry, and held again before the agent gets its end', async () => {
    const { attempt, events, held } = attemptWith();
    const begun = attempt.begin();
    held();
    await begun;
    attempt.awaitsClient();
    expect(events).toEqual(['asked', 'released']);
    const resumed = Promise.resolve(attempt.resume()).then((refusal) => events.push(`resumed ${refusal}`));
    await new Promise((resolve) => setImmediate(resolve));
    expect(events).toEqual(['asked', 'released', 'asked']);
    held();
    await resumed;
    attempt.finish('ok', 1, 'ok');
    expect(events).toEqual(['asked', 'released', 'asked', 'resumed undefined', 'released']);
  });

  it('let no inquiry end that was narrowed while they were not held yet', async () => {
    const { attempt, target, held } = attemptWith();
    const begun = attempt.begin();
    held();
    await begun;
    attempt.awaitsClient();
    const resumed = attempt.resume();
    target.narrowings = 1;
    held();
    expect(await resumed).toMatchObject({ code: 'NOT_GRANTED' });
  });

  it('are held while the agent goes on for a client that has left', async () => {
    const { attempt, events, held } = attemptWith();
    const begun = attempt.begin();
    held();
    await begun;
    attempt.finish('closed', 1, 'left');
    expect(events).toEqual(['asked']);
    attempt.finishLate('ok');
    expect(events).toEqual(['asked', 'released']);
  });

  it('are let go when the client leaves before they are held', async () => {
    const { attempt, events, held } = attemptWith();
    const begun = attempt.begin();
    attempt.finish('closed', 1, 'other');
    held();
    await begun;
    expect(events).toEqual(['asked', 'released']);
  });

  it('are held while a person is asked to confirm it, also when the question is taken back', async () => {
    let answer = (_isAllowed: boolean) => {};
    const { attempt, events, held } = attemptWith((_use, signal) => {
      signal.addEventListener('abort', () => events.push('taken back'));
      return new Promise((resolve) => {
        events.push('confirm');
        answer = resolve;
      });
    });
    const begun = attempt.begin();
    held();
    await new Promise((resolve) => setImmediate(resolve));
    attempt.finish('closed', 1, 'other');
    expect(events).toEqual(['asked', 'confirm', 'taken back']);
    answer(false);
    await begun;
    expect(events).toEqual(['asked', 'confirm', 'taken back', 'released']);
  });
});
