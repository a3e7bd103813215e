import { describe, expect, it } from 'vitest';
import { PASS } from '../assuan/command-gate.ts';
import { BridgeError } from '../errors.ts';
import type { TargetUse } from './key-use-attempt.ts';
import type { KeyUse } from './key-use-record.ts';
import { KeyUseRules } from './key-use-rules.ts';
import { PromptPace } from './prompt-pace.ts';

/** Its line, which matters for few commands. */
const LINE = Buffer.from('PKSIGN\n');
const sign = { command: 'PKSIGN', key: 'A', startedAt: 1 };

function rules(fails = false, suspended?: () => BridgeError | undefined) {
  const begun: KeyUse[] = [];
  const ended: string[] = [];
  const pace = new PromptPace();
  const record = {
    begin(use: KeyUse) {
      if (fails) throw new Error('the disk is full');
      begun.push(use);
      return { finish: (outcome: string) => void ended.push(outcome) };
    },
  };
  const session = () => new KeyUseRules({ pace, record, suspended }, () => {}, 7);
  return { begun, ended, pace, session };
}

const finished = { ...sign, outcome: 'ok' as const, durationMs: 1 };

describe('the rules for a session', () => {
  it('put a use of a private key on record before it begins, and how it ended', () => {
    const { begun, ended, session } = rules();
    const one = session();
    expect(one.admit(sign, LINE)).toBe(PASS);
    expect(begun).toMatchObject([{ command: 'PKSIGN', key: 'A', session: 7 }]);
    expect(one.finished(finished)).toBeUndefined();
    expect(ended).toEqual(['ok']);
  });

  it('let other commands pass without a record, and no passphrase be asked for', () => {
    const { begun, session } = rules();
    expect(session().admit({ command: 'HAVEKEY', startedAt: 1 }, LINE)).toBe(PASS);
    expect(session().admit({ command: 'GET_PASSPHRASE', startedAt: 1 }, LINE)).toMatchObject({
      answer: Buffer.from('ERR 67109115 Forbidden <GPG Agent>\n'),
    });
    expect(begun).toEqual([]);
  });

  it('carry nothing out that can not be recorded', () => {
    const { session, pace } = rules(true);
    const answer = session().admit(sign, LINE) as { answer: Buffer };
    expect(answer.answer.toString()).toMatch(/^ERR \d+ .*the disk is full/);
    expect(pace.enter()).not.toBeInstanceOf(Promise);
  });

  it('judge a use by the grant as it is when its turn comes, when it was confirmed, and when it is answered', async () => {
    const forbidden = new BridgeError('NOT_GRANTED', { what: 'no', why: 'it is not granted', fix: 'None.' });
    let why: BridgeError | undefined;
    const { begun, ended, pace } = rules();
    const record = {
      begin(use: KeyUse) {
        begun.push(use);
        return { finish: (outcome: string) => void ended.push(outcome) };
      },
    };
    const session = (confirm?: () => Promise<boolean>) =>
      new KeyUseRules({ pace, record, forbidden: () => why, confirm }, () => {}, 7);
    const lines = async (admission: unknown) => String(((await admission) as { answer: Buffer }).answer);
    const turns = Array.from({ length: 8 }, () => pace.enter());
    const waiting = session().admit(sign, LINE);
    why = forbidden;
    for (const turn of turns) if (!(turn instanceof Promise)) turn.leave('ok');
    expect(await lines(waiting)).toMatch(/^ERR 67109115 .*it is not granted/);
    expect(begun).toEqual([]);
    why = undefined;
    let yes = (_isAllowed: boolean) => {};
    const asked = session(() => new Promise((resolve) => (yes = resolve))).admit(sign, LINE);
    why = forbidden;
    yes(true);
    expect(await lines(asked)).toMatch(/^ERR 67109115 .*it is not granted/);
    why = undefined;
    const answered = session();
    expect(answered.admit(sign, LINE)).toBe(PASS);
    why = forbidden;
    expect(String(answered.finished(finished))).toMatch(/^ERR 67109115 .*it is not granted/);
    expect(ended).toEqual(['refused']);
  });

  it('judge it by what its key is for, too, when its turn comes and when it was confirmed', async () => {
    const { pace, begun } = rules();
    const usage = { words: new Set(['sign', 'login'] as const), known: true };
    const usages = { of: () => usage, prepare() {}, alsoSigns: () => true };
    const record = {
      begin(use: KeyUse) {
        begun.push(use);
        return { finish() {} };
      },
    };
    let yes = (_isAllowed: boolean) => {};
    const target: TargetUse = { pace, record, usages, grant: {} };
    const lines = async (admission: unknown) => String(((await admission) as { answer: Buffer }).answer);
    const turns = Array.from({ length: 8 }, () => pace.enter());
    const waiting = new KeyUseRules(target, () => {}, 7).admit(sign, LINE);
    target.grant = { login: false };
    for (const turn of turns) if (!(turn instanceof Promise)) turn.leave('ok');
    expect(await lines(waiting)).toMatch(/^ERR 67109115 .*that key can also log in over SSH/);
    expect(begun).toEqual([]);
    target.grant = {};
    target.confirm = () => new Promise((resolve) => (yes = resolve));
    const asked = new KeyUseRules(target, () => {}, 7).admit(sign, LINE);
    target.grant = { login: false };
    yes(true);
    expect(await lines(asked)).toMatch(/^ERR 67109115 .*that key can also log in over SSH/);
  });

  it('judge both keys of a decryption by what they are for', async () => {
    const { pace } = rules();
    const words = { A: new Set(['decrypt'] as const), B: new Set(['decrypt', 'sign'] as const) };
    const of = (key: string | undefined) => ({ words: words[key as 'A' | 'B'], known: true });
    const target: TargetUse = {
      pace,
      record: { begin: () => ({ finish() {} }) },
      usages: { of, prepare() {}, alsoSigns: () => false },
      grant: { sign: false },
    };
    const decrypt = { command: 'PKDECRYPT', startedAt: 1, key: 'A' };
    const line = Buffer.from('PKDECRYPT\n');
    const admit = (another?: string) =>
      new KeyUseRules(target, () => {}, 7).admit({ ...decrypt, ...(another ? { another } : {}) }, line);
    expect(await admit()).toBe(PASS);
    expect(await admit('A')).toBe(PASS);
    expect(await admit('B')).toMatchObject({ answer: expect.anything() });
  });

  it('refuse a use that was suspended before its turn came, and one that was suspended from the start', async () => {
    let why: BridgeError | undefined;
    const { begun, pace, session } = rules(false, () => why);
    const refused = { answer: expect.objectContaining({ length: expect.any(Number) }) };
    const turns = Array.from({ length: 8 }, () => pace.enter());
    const admitted = session().admit(sign, LINE);
    expect(admitted).toBeInstanceOf(Promise);
    why = new BridgeError('PAUSED', {
      what: 'the key was not used',
      why: 'bridges are paused',
      fix: 'Resume.',
    });
    for (const turn of turns) if (!(turn instanceof Promise)) turn.leave('ok');
    expect(await admitted).toMatchObject(refused);
    expect(session().admit(sign, LINE)).toMatchObject(refused);
    expect(begun).toEqual([]);
  });

  it('give a turn back whose client has left while it waited', async () => {
    const { begun, pace, session } = rules();
    const turns = Array.from({ length: 8 }, () => pace.enter());
    const one = session();
    const admitted = one.admit(sign, LINE);
    expect(admitted).toBeInstanceOf(Promise);
    one.finished({ ...finished, outcome: 'closed' });
    for (const turn of turns) if (!(turn instanceof Promise)) turn.leave('ok');
    await admitted;
    expect(begun).toEqual([]);
    const again = Array.from({ length: 8 }, () => pace.enter());
    expect(again.some((turn) => turn instanceof Promise)).toBe(false);
  });
});
