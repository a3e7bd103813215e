import { describe, expect, it } from 'vitest';
import { Journal, type JournalEntry, type JournaledSession } from './journal.ts';

function journal() {
  const recorded: JournalEntry[] = [];
  return {
    recorded,
    book: new Journal(
      (entry) => recorded.push(entry),
      (key) => (key === 'A'.repeat(40) ? { name: 'Ada', fingerprint: 'F'.repeat(40) } : undefined),
    ),
  };
}

const operation = (command: string) => ({
  command,
  outcome: 'ok',
  startedAt: Date.parse('2024-05-06T07:08:09.010Z'),
  durationMs: 12.4,
});

describe('Journal', () => {
  it('writes down what used a key, and remembers the last', () => {
    const { book, recorded } = journal();
    expect(book.lastOperation).toBeUndefined();
    book.operation(7, { ...operation('PKSIGN'), key: 'A'.repeat(40) });
    book.operation(8, { ...operation('PKDECRYPT'), outcome: 'cancelled', durationMs: 1_012.4 });
    expect(recorded).toEqual([
      {
        time: '2024-05-06T07:08:09.022Z',
        session: 7,
        command: 'PKSIGN',
        operation: 'signature',
        key: 'A'.repeat(40),
        name: 'Ada',
        fingerprint: 'F'.repeat(40),
        outcome: 'ok',
        durationMs: 12,
        person: false,
      },
      {
        time: '2024-05-06T07:08:10.022Z',
        session: 8,
        command: 'PKDECRYPT',
        operation: 'decryption',
        outcome: 'cancelled',
        durationMs: 1_012,
        person: true,
      },
    ]);
    expect(book.lastOperation).toEqual(recorded[1]);
  });

  it('has no line of small talk, unless it was refused and GnuPG itself never sends it', () => {
    const { book, recorded } = journal();
    for (const command of ['RESET', 'GETINFO', 'OPTION', 'SCD']) book.operation(1, operation(command));
    for (const command of ['OPTION', 'SCD', 'HAVEKEY', 'NOP', 'SETHASH'])
      book.operation(1, { ...operation(command), outcome: 'refused' });
    expect(recorded.map(({ command, outcome }) => [command, outcome])).toEqual([
      ['NOP', 'refused'],
      ['SETHASH', 'refused'],
    ]);
  });

  it('tells a timeout from a wrong passphrase from a refusal', () => {
    const { book, recorded } = journal();
    const source = 5 * 2 ** 24; // pinentry
    for (const code of [62, 11, 87, 114, 251, 17, 108])
      book.operation(1, { ...operation('PKSIGN'), outcome: 'error', errorCode: source + code });
    book.operation(1, { ...operation('PKSIGN'), outcome: 'cancelled', errorCode: source + 99 });
    expect(recorded.map(({ outcome }) => outcome)).toEqual([
      'timeout',
      'wrong-passphrase',
      'wrong-passphrase',
      'refused',
      'refused',
      'no-secret-key',
      'error',
      'cancelled',
    ]);
    expect(recorded[6]?.error).toBe('Card error <Pinentry>');
  });

  it('tells when no private key is in use', async () => {
    const { book } = journal();
    await book.untilIdle();
    const open: { pending: JournaledSession['pending'] } = { pending: { command: 'PKSIGN', startedAt: 0 } };
    book.begin(open);
    let idle = false;
    const told = book.untilIdle().then(() => {
      idle = true;
    });
    book.operation(2, operation('PKSIGN')); // another session's
    await Promise.resolve();
    expect(idle).toBe(false);
    open.pending = undefined;
    book.operation(1, operation('PKSIGN'));
    await told;
  });

  it('leaves out the small talk, and nothing that is unusual', () => {
    const { book, recorded } = journal();
    for (const command of ['RESET', 'OPTION', 'GETINFO', 'HAVEKEY', 'SIGKEY', 'SETHASH', 'BYE'])
      book.operation(1, operation(command));
    expect(recorded).toEqual([]);
    for (const command of ['READKEY', 'EXPORT_KEY', 'GET_PASSPHRASE', 'sign', 'refused', '?'])
      book.operation(1, operation(command));
    expect(recorded).toHaveLength(6);
  });

  it('knows which operation has waited for a person the longest', () => {
    const { book } = journal();
    const now = 1_000_000;
    const session = (pending: JournaledSession['pending']) => {
      const open = { pending };
      book.begin(open);
      return open;
    };
    session(undefined);
    session({ command: 'PKSIGN', startedAt: now - 999 }); // just asked
    session({ command: 'GETINFO', startedAt: now - 60_000 }); // asks nobody
    expect(book.waiting(now)).toBeUndefined();
    session({ command: 'sign', startedAt: now - 3_000 });
    const longest = session({ command: 'PKDECRYPT', key: 'B', startedAt: now - 9_000 });
    expect(book.waiting(now)).toEqual({ command: 'PKDECRYPT', key: 'B', sinceSeconds: 9 });
    book.end(longest);
    expect(book.waiting(now)).toEqual({ command: 'sign', sinceSeconds: 3 });
  });
});

describe('a client that owes the data of an inquiry', () => {
  const decrypting = (awaitsClient: boolean): JournaledSession => ({
    pending: { command: 'PKDECRYPT', startedAt: 1 },
    awaitsClient,
  });

  it('waits for no person, uses no key and is not waited for', async () => {
    const { book } = journal();
    const session = decrypting(true);
    book.begin(session);
    expect(book.waiting(60_000)).toBeUndefined();
    expect(book.lastUse(60_000)).toBe(0);
    await book.untilIdle();
    book.end(session);
    book.begin(decrypting(false));
    expect(book.waiting(60_000)).toMatchObject({ command: 'PKDECRYPT' });
    expect(book.lastUse(60_000)).toBe(60_000);
  });

  it('ends a wait for it when it comes to owe them', async () => {
    const { book } = journal();
    let owes = false;
    book.begin({
      pending: { command: 'PKDECRYPT', startedAt: 1 },
      get awaitsClient() {
        return owes;
      },
    });
    const idle = book.untilIdle();
    owes = true;
    book.clientAwaited();
    await idle;
  });

  it('has others behind it that are not waited for either', async () => {
    let isHeld = true;
    const book = new Journal(
      () => {},
      () => undefined,
      () => isHeld,
    );
    book.begin({ pending: { command: 'PKSIGN', startedAt: 1 } });
    await book.untilIdle();
    expect(book.waiting(60_000)).toBeUndefined();
    isHeld = false;
    expect(book.waiting(60_000)).toMatchObject({ command: 'PKSIGN' });
  });
});
