import { certificateShaped, sshsigData, userAuthData } from '@gpg-bridge/test-support/ssh-requests';
import { describe, expect, it } from 'vitest';
import { SshAgentFilter, type SshAgentFilterOptions, type SshOperation } from './filter.ts';
import { chosenKeys } from './identities.ts';
import { encodeString, fingerprint } from './key-blob.ts';
import { FAILURE_MESSAGE, MAX_MESSAGE, SshMessage } from './messages.ts';

const FAILURE = '0000000105';
const LIST = '000000010b';
const uint32 = (value: number): Buffer => Buffer.of(value >>> 24, value >>> 16, value >>> 8, value);

const message = (type: number, ...fields: (Buffer | string)[]): Buffer =>
  SshMessage.of(type, Buffer.concat(fields.map((one) => (typeof one === 'string' ? encodeString(one) : one))))
    .bytes;

const KEYS = ['work', 'home', 'other'].map((comment) => ({
  comment,
  blob: Buffer.from(`blob of ${comment}`),
}));
const [WORK, HOME, OTHER] = KEYS as [(typeof KEYS)[0], (typeof KEYS)[0], (typeof KEYS)[0]];
const identities = (keys: typeof KEYS): Buffer =>
  message(12, uint32(keys.length), ...keys.flatMap(({ blob, comment }) => [encodeString(blob), comment]));
const sign = (key: (typeof KEYS)[0], user = 'ada', flags = 0): Buffer =>
  message(13, encodeString(key.blob), encodeString(userAuthData(key.blob, { user })), uint32(flags));
const SIGNATURE = message(14, 'signature');
const ED25519 = Buffer.concat([encodeString('ssh-ed25519'), encodeString(Buffer.alloc(32, 9))]);

/** A filter whose operations are collected; the clock counts its readings. */
function watched({ keys, ...options }: SshAgentFilterOptions & { keys?: readonly string[] } = {}) {
  const operations: SshOperation[] = [];
  let clock = 0;
  const filter = new SshAgentFilter({
    now: () => ++clock,
    onOperation: (one) => operations.push(one),
    ...(keys ? { offers: chosenKeys(keys) } : {}),
    ...options,
  });
  return { filter, operations };
}

/** The same after the client has listed the keys. */
function listed(options: Parameters<typeof watched>[0] = {}) {
  const { filter, operations } = watched(options);
  filter.fromClient(Buffer.from(LIST, 'hex'));
  filter.fromAgent(identities(KEYS));
  operations.length = 0;
  return { filter, operations };
}

const hexOf = (buffers: readonly Buffer[]): string[] => buffers.map((one) => one.toString('hex'));

describe('the allowlist', () => {
  it.each([
    ['list', Buffer.from(LIST, 'hex')],
    ['sign', sign(WORK)],
    ['session-bind', message(27, 'session-bind@openssh.com', 'hostkey', 'session', 'sig', Buffer.of(0))],
  ])('%s passes, byte for byte, and so does its answer', (command, request) => {
    const { filter, operations } = listed();
    expect(filter.fromClient(request)).toEqual({ toAgent: [request], toClient: [] });
    expect(filter.pending).toMatchObject({ command });
    const answer = { list: identities(KEYS), sign: SIGNATURE, 'session-bind': message(6) }[command]!;
    expect(filter.fromAgent(answer)).toEqual({ toAgent: [], toClient: [answer] });
    expect(filter.pending).toBeUndefined();
    expect(operations).toMatchObject([{ command, outcome: 'ok', durationMs: 1 }]);
  });

  const refused: [string, Buffer][] = [
    ['add', message(17, 'ssh-ed25519', 'secret')],
    ['remove', message(18, encodeString(WORK.blob))],
    ['remove-all', message(19)],
    ['add-smartcard', message(20, 'reader', '1234')],
    ['remove-smartcard', message(21, 'reader', '1234')],
    ['lock', message(22, 'passphrase')],
    ['unlock', message(23, 'passphrase')],
    ['add-constrained', message(25, 'ssh-ed25519', 'secret')],
    ['add-smartcard-constrained', message(26, 'reader', '1234')],
    ['extension', message(27, 'query')],
    ['extension', message(27, 'session-bind@openssh.com.example')],
    ['extension', message(27, 'restrict-destination-v00@openssh.com')],
    ['extension', message(27)],
    ['extension', message(27, uint32(0xffffffff))],
    ['sign', message(13)],
    ['sign', message(13, uint32(99))],
    ['list-v1', message(1)],
    ['unknown', message(0)],
    ['unknown', message(200)],
  ];

  it.each(refused)('%s is answered FAILURE and does not reach the agent', (command, request) => {
    const { filter, operations } = watched();
    const { toAgent, toClient } = filter.fromClient(request);
    expect(toAgent).toEqual([]);
    expect(hexOf(toClient)).toEqual([FAILURE]);
    expect(operations).toMatchObject([{ command, outcome: 'refused', note: expect.any(String) }]);
  });

  it('passes exactly three of the 256 message types', () => {
    const bind = encodeString('session-bind@openssh.com');
    const passes = (type: number, contents: Buffer) =>
      listed().filter.fromClient(SshMessage.of(type, contents).bytes).toAgent.length > 0;
    const passing = Array.from({ length: 256 }, (_, type) => type).filter(
      (type) => passes(type, bind) || passes(type, sign(WORK).subarray(5)),
    );
    expect(passing).toEqual([11, 13, 27]);
  });

  it('never tells a log more than the name and the key', () => {
    const { filter, operations } = listed();
    filter.fromClient(Buffer.concat(refused.map(([, request]) => request)));
    filter.fromClient(sign(WORK, 'payload'));
    filter.end();
    expect(JSON.stringify(operations)).not.toMatch(/secret|1234|passphrase|payload/);
    expect(operations.at(-1)).toEqual({
      command: 'sign',
      key: fingerprint(WORK.blob),
      name: 'work',
      outcome: 'closed',
      startedAt: expect.any(Number),
      durationMs: 1,
    });
  });
});

describe('answers', () => {
  it("keep the order of pipelined requests, the bridge's own among the agent's", () => {
    const { filter, operations } = listed();
    const list = Buffer.from(LIST, 'hex');
    const batch = Buffer.concat([message(19), list, message(17), message(18), sign(HOME), message(22)]);
    const first = filter.fromClient(batch);
    expect(first.toAgent).toEqual([list, sign(HOME)]);
    expect(hexOf(first.toClient)).toEqual([FAILURE]);
    const second = filter.fromAgent(identities(KEYS));
    expect(second.toClient).toEqual([identities(KEYS), FAILURE_MESSAGE, FAILURE_MESSAGE]);
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE, FAILURE_MESSAGE]);
    expect(operations.map((one) => one.command)).toEqual([
      'remove-all',
      'list',
      'add',
      'remove',
      'sign',
      'lock',
    ]);
  });

  it('are the same however both sides are cut', () => {
    const request = Buffer.concat([message(19), Buffer.from(LIST, 'hex'), message(17), sign(HOME)]);
    const answer = Buffer.concat([identities(KEYS), SIGNATURE]);
    const { filter } = listed();
    const toAgent: Buffer[] = [];
    const toClient: Buffer[] = [];
    const collect = (passed: ReturnType<SshAgentFilter['fromClient']>): void => {
      toAgent.push(...passed.toAgent);
      toClient.push(...passed.toClient);
    };
    for (const byte of request) collect(filter.fromClient(Buffer.of(byte)));
    for (const byte of answer) collect(filter.fromAgent(Buffer.of(byte)));
    expect(Buffer.concat(toAgent)).toEqual(Buffer.concat([Buffer.from(LIST, 'hex'), sign(HOME)]));
    const expected = [FAILURE_MESSAGE, identities(KEYS), FAILURE_MESSAGE, SIGNATURE];
    expect(Buffer.concat(toClient)).toEqual(Buffer.concat(expected));
  });

  it('of an agent that refuses are an error in the log', () => {
    const { filter, operations } = listed();
    filter.fromClient(sign(WORK));
    expect(filter.fromAgent(FAILURE_MESSAGE).toClient).toEqual([FAILURE_MESSAGE]);
    expect(operations).toMatchObject([{ command: 'sign', outcome: 'error' }]);
  });

  it('that nobody asked for are dropped', () => {
    expect(new SshAgentFilter().fromAgent(SIGNATURE)).toEqual({ toAgent: [], toClient: [] });
  });

  it('can be owed for 1,024 requests at most', () => {
    const { filter } = watched();
    const list = Buffer.from(LIST, 'hex');
    filter.fromClient(Buffer.concat(Array.from({ length: 1_024 }, () => list)));
    expect(() => filter.fromClient(list)).toThrow(expect.objectContaining({ code: 'SSH_PROTOCOL' }));
  });

  it('that are no messages end the session', () => {
    const refusal = expect.objectContaining({ code: 'SSH_PROTOCOL' });
    expect(() => new SshAgentFilter().fromClient(Buffer.from('GET / HTTP/1.1\r\n'))).toThrow(refusal);
    expect(() => new SshAgentFilter().fromAgent(Buffer.alloc(4))).toThrow(refusal);
  });
});

describe('chosen keys', () => {
  const list = Buffer.from(LIST, 'hex');

  it.each([
    ['fingerprint', [fingerprint(WORK.blob)], [WORK]],
    ['padded fingerprint', [`${fingerprint(WORK.blob)}=`], [WORK]],
    ['comment', ['home'], [HOME]],
    ['both', [fingerprint(WORK.blob), 'home'], [WORK, HOME]],
    ['neither', ['nobody', 'SHA256:nothing'], []],
    ['an empty choice', [], []],
  ])('by %s are all that is listed', (_name, keys, left) => {
    const { filter } = watched({ keys });
    expect(filter.fromClient(list).toAgent).toEqual([list]);
    expect(filter.fromAgent(identities(KEYS)).toClient).toEqual([identities(left)]);
  });

  it('by fingerprint: others are refused', () => {
    const { filter, operations } = listed({ keys: [fingerprint(WORK.blob)] });
    expect(filter.fromClient(sign(OTHER))).toEqual({ toAgent: [list], toClient: [] });
    expect(filter.fromAgent(identities(KEYS))).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
    expect(filter.fromClient(sign(WORK)).toAgent).toEqual([sign(WORK)]);
    filter.fromAgent(SIGNATURE);
    expect(operations.map(({ outcome, note }) => [outcome, note])).toEqual([
      ['refused', 'the target may not use this key'], // the agent lists it
      ['ok', undefined],
    ]);
  });

  it('by comment: the agent is asked for its list before the first signature', () => {
    const { filter, operations } = watched({ keys: ['home'] });
    const batch = Buffer.concat([sign(HOME), message(19), sign(OTHER), sign(HOME, 'again')]);
    expect(filter.fromClient(batch)).toEqual({ toAgent: [list], toClient: [] });
    expect(filter.fromAgent(identities(KEYS))).toEqual({ toAgent: [sign(HOME), list], toClient: [] });
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE, FAILURE_MESSAGE]);
    const decided = filter.fromAgent(identities(KEYS));
    expect(decided).toEqual({ toAgent: [sign(HOME, 'again')], toClient: [FAILURE_MESSAGE] });
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE]);
    expect(operations.map(({ command, outcome }) => `${command} ${outcome}`)).toEqual([
      'sign ok',
      'remove-all refused',
      'sign refused',
      'sign ok',
    ]);
    expect(operations.map(({ key }) => key)).toEqual(
      [HOME, undefined, OTHER, HOME].map((key) => key && fingerprint(key.blob)),
    );
  });

  it('by comment: nothing is signed when the agent can not list', () => {
    const { filter } = watched({ keys: ['home'] });
    filter.fromClient(sign(HOME));
    expect(filter.fromAgent(FAILURE_MESSAGE)).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
  });

  it.each([
    ['cut short', message(12, uint32(2), encodeString(WORK.blob), 'work')],
    ['longer than it says', message(12, uint32(0), 'more')],
    ['without a count', message(12)],
    ['something else', message(6)],
  ])('a list that is %s is not passed on', (_name, answer) => {
    const { filter } = watched({ keys: ['home'] });
    filter.fromClient(list);
    expect(filter.fromAgent(answer).toClient).toEqual([FAILURE_MESSAGE]);
  });

  it('what waits behind a decision is bounded', () => {
    const refusal = expect.objectContaining({ code: 'SSH_PROTOCOL' });
    const large = sign(HOME, 'x'.repeat(MAX_MESSAGE - 300));
    const { filter } = watched({ keys: ['home'] });
    filter.fromClient(sign(HOME));
    filter.fromClient(large);
    expect(() => filter.fromClient(Buffer.concat([large, large]))).toThrow(refusal);
    const many = watched({ keys: ['home'] }).filter;
    many.fromClient(sign(HOME));
    expect(() => many.fromClient(Buffer.concat(Array.from({ length: 65 }, () => list)))).toThrow(refusal);
  });

  it('a decision that fails ends the session, and nothing more', async () => {
    const broken: Error[] = [];
    const { filter } = listed({
      attemptSign: () => ({ begin: () => Promise.reject(new Error('no file')), finish: () => true }),
      broken: (error) => void broken.push(error),
    });
    expect(filter.fromClient(sign(WORK)).toAgent).toEqual([]);
    await new Promise(setImmediate);
    expect(broken).toMatchObject([{ message: 'no file' }]);
  });

  it('what waits behind a decision is counted with what waits in front of it', async () => {
    let decide!: (isAdmitted: boolean) => void;
    const decision = new Promise<boolean>((resolve) => {
      decide = resolve;
    });
    const sent: Buffer[] = [];
    const { filter } = listed({
      now: () => 0,
      attemptSign: () => ({ begin: () => decision, finish: () => true }),
      later: ({ toAgent }) => sent.push(...toAgent),
    });
    filter.fromClient(
      Buffer.concat([...Array.from({ length: 1_020 }, () => list), sign(WORK), list, list, list]),
    );
    expect(() => filter.fromClient(list)).toThrow(expect.objectContaining({ code: 'SSH_PROTOCOL' }));
    decide(true);
    await new Promise(setImmediate);
    expect(hexOf(sent)).toEqual(hexOf([sign(WORK), list, list, list]));
  });
});

describe('a signature', () => {
  const list = Buffer.from(LIST, 'hex');

  it('waits for a list if the client asked for none, and is recorded as the entry there', () => {
    const { filter, operations } = watched();
    expect(filter.fromClient(sign(WORK))).toEqual({ toAgent: [list], toClient: [] });
    expect(filter.fromAgent(identities(KEYS))).toEqual({ toAgent: [sign(WORK)], toClient: [] });
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE]);
    expect(operations).toMatchObject([
      { command: 'sign', key: fingerprint(WORK.blob), name: 'work', outcome: 'ok' },
    ]);
  });

  it('with a key that was added behind the last list is made after another list', () => {
    const { filter } = watched();
    filter.fromClient(list);
    filter.fromAgent(identities([WORK]));
    expect(filter.fromClient(sign(HOME)).toAgent).toEqual([list]);
    expect(filter.fromAgent(identities([WORK, HOME])).toAgent).toEqual([sign(HOME)]);
  });

  it('is recorded by the key in a certificate, and as what it is for', () => {
    const certificate = { comment: 'certified', blob: Buffer.from(certificateShaped(ED25519)) };
    const attempted: unknown[] = [];
    const { filter } = watched({
      attemptSign: ({ key, name, purpose }) => {
        attempted.push({ key, name, purpose });
        return { begin: () => true, finish: () => true };
      },
    });
    const sshsig = message(13, encodeString(certificate.blob), encodeString(sshsigData()), uint32(0));
    filter.fromClient(Buffer.concat([sign(certificate), sshsig]));
    filter.fromAgent(identities([certificate]));
    const entry = { key: fingerprint(ED25519), name: 'certified' };
    expect(attempted).toEqual([entry, { ...entry, purpose: 'signature' }]);
  });

  it('is asked for and answered as it came, though its bytes are overwritten meanwhile', async () => {
    const sent: Buffer[] = [];
    const attempt = { begin: () => Promise.resolve(true), finish: () => true };
    const { filter } = watched({
      attemptSign: () => attempt,
      later: ({ toAgent }) => sent.push(...toAgent),
    });
    const overwritten = (bytes: Buffer, take: (chunk: Buffer) => unknown) => {
      const chunk = Buffer.from(bytes);
      take(chunk);
      chunk.fill(0);
    };
    const requests = Buffer.concat([sign(WORK), sign(HOME)]);
    overwritten(requests, (chunk) => filter.fromClient(chunk)); // neither asked for nor listed yet
    overwritten(identities(KEYS), (chunk) => filter.fromAgent(chunk));
    overwritten(sign(OTHER), (chunk) => filter.fromClient(chunk));
    await new Promise(setImmediate);
    overwritten(sign(WORK), (chunk) => filter.fromClient(chunk));
    await new Promise(setImmediate);
    expect(hexOf(sent)).toEqual(hexOf([sign(WORK), sign(HOME), sign(OTHER), sign(WORK)]));
  });

  it('that must not leave is not answered with', () => {
    const { filter, operations } = listed({
      attemptSign: () => ({ begin: () => true, finish: () => false }),
    });
    filter.fromClient(sign(WORK));
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([FAILURE_MESSAGE]);
    expect(operations).toMatchObject([{ command: 'sign', outcome: 'refused' }]);
  });

  it.each([
    ['a part', ED25519.subarray(0, -1)],
    ['more', Buffer.concat([ED25519, Buffer.of(0)])],
  ])('with %s of a listed key is refused', (_name, blob) => {
    const { filter } = watched();
    filter.fromClient(sign({ comment: '', blob }));
    const listing = identities([{ comment: 'real', blob: ED25519 }]);
    expect(filter.fromAgent(listing)).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
  });

  it('with a key that the agent does not list is refused, whatever the blob is shaped like', () => {
    const shaped = { comment: '', blob: Buffer.from(certificateShaped(ED25519)) };
    const { filter, operations } = watched();
    filter.fromClient(sign(shaped));
    const listing = identities([{ comment: 'real', blob: ED25519 }]);
    expect(filter.fromAgent(listing)).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
    expect(operations).toMatchObject([
      { outcome: 'refused', note: 'the ssh-agent does not list this key', key: expect.any(String) },
    ]);
    expect(operations[0]!.key).not.toBe(fingerprint(ED25519));
  });

  it.each([0, 2, 4])('may have the flags %i', (flags) => {
    const request = sign(WORK, 'ada', flags);
    expect(listed().filter.fromClient(request).toAgent).toEqual([request]);
  });

  const good = userAuthData(WORK.blob);
  it.each([
    ['of a digest', message(13, encodeString(WORK.blob), encodeString(Buffer.alloc(32)), uint32(0))],
    ['of nothing', message(13, encodeString(WORK.blob), '', uint32(0))],
    [
      'of a login with another key',
      message(13, encodeString(WORK.blob), encodeString(userAuthData(HOME.blob)), uint32(0)),
    ],
    ['with the flags 1', sign(WORK, 'ada', 1)],
    ['with the flags 6', sign(WORK, 'ada', 6)],
    ['without flags', message(13, encodeString(WORK.blob), encodeString(good))],
    [
      'with something behind it',
      message(13, encodeString(WORK.blob), encodeString(good), uint32(0), Buffer.of(0)),
    ],
    [
      'of SSHSIG with something behind it',
      message(13, encodeString(WORK.blob), encodeString(sshsigData({ behind: Buffer.of(0) })), uint32(0)),
    ],
  ])('%s is refused', (_name, request) => {
    const { filter, operations } = listed();
    expect(filter.fromClient(request)).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
    expect(operations).toMatchObject([{ command: 'sign', outcome: 'refused', note: expect.any(String) }]);
  });
});

describe('a client that leaves', () => {
  it('is waited for no more, but the agent is that signs for it, and nothing more goes there', () => {
    const told: string[] = [];
    const attemptSign = () => ({
      begin: () => true,
      finish: (outcome: string, _durationMs: number, goesOn?: boolean) =>
        Boolean(told.push(goesOn ? `${outcome}, goes on` : outcome)),
      finishLate: (outcome: string) => void told.push(`late ${outcome}`),
    });
    const { filter, operations } = listed({ attemptSign });
    filter.fromClient(Buffer.concat([sign(WORK), sign(HOME)]));
    expect(filter.clientLeft()).toBe(true);
    expect(filter.pending).toBeUndefined();
    expect(operations.map(({ outcome }) => outcome)).toEqual(['closed', 'closed']);
    expect(filter.fromAgent(SIGNATURE)).toEqual({ toAgent: [], toClient: [] });
    expect(filter.isOver).toBe(false);
    filter.fromAgent(FAILURE_MESSAGE);
    expect(filter.isOver).toBe(true);
    filter.end();
    expect(told).toEqual(['closed, goes on', 'closed, goes on', 'late ok', 'late cancelled']);
    expect(operations).toHaveLength(2);
  });

  it('while it is decided about a signature gets none, however that is decided', async () => {
    const passed: unknown[] = [];
    const { filter } = listed({
      attemptSign: () => ({ begin: () => Promise.resolve(true), finish: () => true }),
      later: (bytes) => passed.push(bytes),
    });
    filter.fromClient(sign(WORK));
    filter.clientLeft();
    await new Promise(setImmediate);
    expect(passed).toEqual([]);
  });

  it('and had asked for no signature leaves nothing to wait for', () => {
    const { filter } = listed({
      attemptSign: () => ({ begin: () => new Promise(() => {}), finish: () => true }),
    });
    filter.fromClient(sign(WORK));
    expect(filter.clientLeft()).toBe(false);
  });
});

describe('the list of keys', () => {
  it('is asked for again before a signature when it is older than a second', () => {
    let time = 5_000;
    const { filter, operations } = listed({ now: () => time });
    time += 900;
    expect(filter.fromClient(sign(WORK)).toAgent).toEqual([sign(WORK)]);
    filter.fromAgent(SIGNATURE);
    time += 200;
    expect(hexOf(filter.fromClient(sign(WORK)).toAgent)).toEqual([LIST]);
    // The agent has stopped listing that key, and would still sign with it.
    const rest = filter.fromAgent(identities([HOME, OTHER]));
    expect(rest).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
    expect(operations.at(-1)).toMatchObject({
      outcome: 'refused',
      note: 'the ssh-agent does not list this key',
    });
    expect(filter.fromClient(sign(HOME)).toAgent).toEqual([sign(HOME)]);
  });

  it('is asked for again when a signature has waited for its decision', async () => {
    let [time, decide] = [5_000, (_isAdmitted: boolean): void => {}];
    const sent: Buffer[] = [];
    const outcomes: string[] = [];
    const { filter, operations } = listed({
      now: () => time,
      attemptSign: () => ({
        begin: () =>
          new Promise((resolve) => {
            decide = resolve;
          }),
        finish: (outcome) => Boolean(outcomes.push(outcome)),
      }),
      later: ({ toAgent }) => sent.push(...toAgent),
    });
    const decided = async (elapsed = 1_000) => {
      time += elapsed;
      decide(true);
      await new Promise(setImmediate);
      return hexOf(sent.splice(0));
    };
    filter.fromClient(Buffer.concat([Buffer.from(LIST, 'hex'), sign(WORK), Buffer.from(LIST, 'hex')]));
    // The agent has stopped listing that key meanwhile.
    filter.fromAgent(identities([HOME]));
    expect(await decided(0)).toEqual([LIST]);
    const rest = filter.fromAgent(identities([HOME]));
    expect([hexOf(rest.toAgent), hexOf(rest.toClient)]).toEqual([[LIST], [FAILURE]]);
    expect(operations.slice(1)).toMatchObject([
      { command: 'sign', outcome: 'refused', note: 'the ssh-agent does not list this key' },
    ]);
    filter.fromAgent(identities([HOME]));
    filter.fromClient(sign(HOME));
    expect(await decided()).toEqual([LIST]);
    expect(filter.fromAgent(identities([HOME]))).toEqual({ toAgent: [sign(HOME)], toClient: [] });
    expect(filter.fromAgent(SIGNATURE).toClient).toEqual([SIGNATURE]);
    filter.fromClient(sign(HOME));
    expect(await decided()).toEqual([LIST]);
    expect(filter.clientLeft()).toBe(false);
    expect(outcomes).toEqual(['refused', 'ok', 'closed']);
  });

  it('leads to no signature that is not allowed any more when it comes', async () => {
    const finished: string[] = [];
    let time = 5_000;
    const { filter, operations } = listed({
      now: () => time,
      attemptSign: () => ({
        begin: async () => true,
        isAllowedStill: () => false,
        finish: (outcome) => Boolean(finished.push(outcome)),
      }),
    });
    filter.fromClient(sign(WORK));
    time += 1_000;
    await new Promise(setImmediate);
    const rest = filter.fromAgent(identities(KEYS));
    expect(rest).toEqual({ toAgent: [], toClient: [FAILURE_MESSAGE] });
    expect([finished, operations]).toMatchObject([['refused'], [{ command: 'sign', outcome: 'refused' }]]);
  });

  it('counts for no time after the clock was set back', () => {
    let time = 5_000;
    const { filter } = listed({ now: () => time });
    time -= 1;
    expect(hexOf(filter.fromClient(sign(WORK)).toAgent)).toEqual([LIST]);
  });

  it('holds no key that is not offered any more', () => {
    let isOffered = true;
    const { filter } = listed({ offers: () => isOffered });
    isOffered = false;
    filter.fromClient(sign(WORK));
    expect(filter.fromAgent(identities(KEYS)).toClient).toEqual([FAILURE_MESSAGE]);
  });
});
