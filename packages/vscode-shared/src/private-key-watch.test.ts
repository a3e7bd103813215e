import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PrivateKeyWatch } from './private-key-watch.ts';

describe('PrivateKeyWatch', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** A watch whose notices are written down, and an agent that answers when it is told to. */
  function setUp() {
    const notices: string[] = [];
    const watch = new PrivateKeyWatch(({ purpose, key }) => {
      notices.push(key ? `${purpose} with ${key}` : purpose);
      return () => notices.push('over');
    });
    const ask = (block: string) => {
      let answer = (_response: string) => {};
      const asked = watch.exchange(
        's',
        block,
        () => new Promise<{ response: string }>((resolve) => (answer = (response) => resolve({ response }))),
      );
      return async (response: string) => {
        answer(response);
        expect(await asked).toEqual({ response });
      };
    };
    return { notices, ask, watch };
  }

  it('says which key the client has chosen', async () => {
    const { notices, ask, watch } = setUp();
    await ask(`SIGKEY ${'a'.repeat(40)}\n`)('OK\n');
    const answer = ask('PKSIGN\n');
    vi.advanceTimersByTime(1_000);
    expect(notices).toEqual([`a signature with ${'A'.repeat(40)}`]);
    await answer('OK\n');
    watch.forget('s');
    ask('PKSIGN\n');
    vi.advanceTimersByTime(1_000);
    expect(notices.at(-1)).toBe('a signature');
  });

  it.each([
    ['PKSIGN\n', 'a signature'],
    ['pksign --hash=sha256\n', 'a signature'],
    ['# comment\n\nPKAUTH 0123\n', 'an authentication'],
  ])('notices %j after a second, until it is answered', async (block, purpose) => {
    const { notices, ask } = setUp();
    const answer = ask(block);
    vi.advanceTimersByTime(999);
    expect(notices).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(notices).toEqual([purpose]);
    await answer('S progress\nOK\n');
    expect(notices).toEqual([purpose, 'over']);
  });

  it('says nothing of one that is answered in time, nor later', async () => {
    const { notices, ask } = setUp();
    const answer = ask('PKSIGN\n');
    vi.advanceTimersByTime(900);
    await answer('D sig\nOK\n');
    vi.advanceTimersByTime(10_000);
    expect(notices).toEqual([]);
  });

  it('goes on with a decryption after its inquiry', async () => {
    const { notices, ask } = setUp();
    await ask('PKDECRYPT\n')('S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n');
    const answer = ask('D (7:enc-val…)\nEND\n');
    vi.advanceTimersByTime(1_000);
    expect(notices).toEqual(['a decryption']);
    await answer('ERR 83886179 Operation cancelled <Pinentry>\n');
    expect(notices).toEqual(['a decryption', 'over']);
    ask('GETINFO pid\n');
    vi.advanceTimersByTime(10_000);
    expect(notices).toHaveLength(2);
  });

  it.each(['HAVEKEY 01\n', 'PKSIGNX\n', 'D PKSIGN\n', 'SETKEYDESC PKSIGN\n'])(
    'does not watch %j',
    (block) => {
      const { notices, ask } = setUp();
      ask(block);
      vi.advanceTimersByTime(10_000);
      expect(notices).toEqual([]);
    },
  );

  it('ends the notice when the exchange fails', async () => {
    const { notices, watch } = setUp();
    let fail = (_error: Error) => {};
    const asked = watch.exchange(
      's',
      'PKSIGN\n',
      () => new Promise<never>((_resolve, reject) => (fail = reject)),
    );
    vi.advanceTimersByTime(1_000);
    fail(new Error('gone'));
    await expect(asked).rejects.toThrow('gone');
    expect(notices).toEqual(['a signature', 'over']);
  });

  it('forgets a session that ended in an inquiry', async () => {
    const { notices, ask, watch } = setUp();
    await ask('PKDECRYPT\n')('INQUIRE CIPHERTEXT\n');
    watch.forget('s');
    ask('D x\nEND\n');
    vi.advanceTimersByTime(10_000);
    expect(notices).toEqual([]);
  });
});
