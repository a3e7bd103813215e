import { conversation, cut, places } from '@gpg-bridge/test-support/conversation';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AssuanObserver } from './observer.ts';
import type { Operation } from './operation.ts';

const GRIP = '0123456789ABCDEF0123456789ABCDEF01234567';
const OTHER = 'F'.repeat(40);

/** An observer with a clock that a test moves, and short ways to speak. */
function watched() {
  const operations: Operation[] = [];
  const clock = { now: 1000 };
  const observer = new AssuanObserver((operation) => operations.push(operation), { now: () => clock.now });
  const client = (text: string) => observer.fromClient(Buffer.from(text, 'latin1'));
  const agent = (text: string) => observer.fromAgent(Buffer.from(text, 'latin1'));
  const seen = () =>
    operations.map(({ command, key, outcome }) => `${command}${key ? ` ${key}` : ''} ${outcome}`);
  return { observer, clock, operations, client, agent, seen };
}

function greeted() {
  const watch = watched();
  watch.agent('OK Pleased to meet you\n');
  return watch;
}

describe('AssuanObserver', () => {
  it('tells what a signature was', () => {
    const { client, agent, clock, operations } = greeted();
    client(`SIGKEY ${GRIP}\n`);
    agent('OK\n');
    client('SETHASH 8 0011\n');
    agent('OK\n');
    clock.now = 2000;
    client('PKSIGN\n');
    clock.now = 4500;
    agent('D (7:sig-val)\nOK\n');
    expect(operations).toEqual([
      { command: 'SIGKEY', key: GRIP, startedAt: 1000, outcome: 'ok', durationMs: 0 },
      { command: 'SETHASH', startedAt: 1000, outcome: 'ok', durationMs: 0 },
      { command: 'PKSIGN', key: GRIP, startedAt: 2000, outcome: 'ok', durationMs: 2500 },
    ]);
  });

  it('tells refusals with their code, and cancellations as such', () => {
    const { client, agent, operations } = greeted();
    client('KEYINFO --list\n');
    agent('ERR 67109115 Forbidden <GPG Agent>\n');
    client('PKSIGN\n');
    agent('ERR 83886179 Operation cancelled <Pinentry>\n');
    client('PKSIGN\n');
    agent('ERR\n');
    expect(operations.map(({ outcome, errorCode }) => [outcome, errorCode])).toEqual([
      ['error', 67109115],
      ['cancelled', 83886179],
      ['error', undefined],
    ]);
  });

  it('follows inquiry after inquiry as one operation', () => {
    const { client, agent, observer, seen } = greeted();
    client(`SETKEY ${GRIP}\n`);
    agent('OK\n');
    client('PKDECRYPT\n');
    agent('S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n');
    expect(observer.owed).toBe(false);
    expect(observer.pending?.command).toBe('PKDECRYPT');
    client('D OK\n# note\n\nD END\nEND\n');
    expect(observer.owed).toBe(true);
    agent('INQUIRE MORE\n');
    client('CAN\n');
    agent('ERR 67109141 IPC call has been cancelled <GPG Agent>\n');
    client('NOP\n');
    agent('OK\n');
    expect(seen()).toEqual([`SETKEY ${GRIP} ok`, `PKDECRYPT ${GRIP} cancelled`, 'NOP ok']);
  });

  it('takes a line in an inquiry that is no END for its end, as the agent does', () => {
    const { client, agent, seen } = greeted();
    client('PKDECRYPT\n');
    agent('INQUIRE CIPHERTEXT\n');
    client('D\n');
    agent('ERR 67109138 Unexpected IPC command <GPG Agent>\n');
    client('END\n');
    agent('ERR 67108933 Not implemented <GPG Agent>\n');
    expect(seen()).toEqual(['PKDECRYPT error', 'END error']);
  });

  it('uses what came early when its turn comes', () => {
    const { client, agent, clock, operations, seen } = watched();
    client(`SETKEY ${GRIP}\nPKDECRYPT\nD a\nD b\nEND\nNOP\nD stray\nBYE\n`);
    agent('OK hello\nOK\n');
    clock.now = 3000;
    agent('INQUIRE CIPHERTEXT\nD x\nOK\nOK\nERR 67108933 Not implemented\nOK closing connection\n');
    expect(seen()).toEqual([`SETKEY ${GRIP} ok`, `PKDECRYPT ${GRIP} ok`, 'NOP ok', 'D error', 'BYE ok']);
    expect(operations.map(({ startedAt }) => startedAt)).toEqual([1000, 1000, 3000, 3000, 3000]);
  });

  it('tells early data that no one asked for as what it is to the agent: lines to refuse', () => {
    const { client, agent, seen } = greeted();
    client('PKDECRYPT\nD a\nD b\nEND\n');
    agent('ERR 1 x\nERR 1 x\nERR 1 x\nERR 1 x\n');
    expect(seen()).toEqual(['PKDECRYPT error', 'D error', 'D error', 'END error']);
  });

  it('knows which key is chosen', () => {
    const { client, agent, seen } = greeted();
    const command = (text: string, answer = 'OK') => {
      client(`${text}\n`);
      agent(`${answer}\n`);
    };
    command('PKSIGN', 'ERR 1');
    command(`sigkey   ${GRIP.toLowerCase()} and more`);
    command('pksign --hash=x');
    command(`SIGKEY ${OTHER}`, 'ERR 1 refused');
    command('PKSIGN');
    command('SIGKEY 1234', 'ERR 1 refused');
    command(`SIGKEY ${GRIP}0`, 'ERR 1 refused');
    command('PKSIGN');
    command('RESET now');
    command('PKSIGN', 'ERR 1');
    command(`PKAUTH ${OTHER}`);
    expect(seen()).toEqual([
      'PKSIGN error',
      `SIGKEY ${GRIP} ok`,
      `PKSIGN ${GRIP} ok`,
      `SIGKEY ${OTHER} error`,
      `PKSIGN ${GRIP} ok`,
      'SIGKEY error',
      'SIGKEY error',
      `PKSIGN ${GRIP} ok`,
      'RESET ok',
      'PKSIGN error',
      `PKAUTH ${OTHER} ok`,
    ]);
  });

  it('reads keys and codes at every split point', () => {
    const sent = `SIGKEY ${GRIP}\nPKSIGN\n`;
    const answered = 'OK\nERR 67109115 Forbidden <GPG Agent>\n';
    for (let split = 0; split <= sent.length; split++) {
      const { client, agent, operations } = greeted();
      client(sent.slice(0, split));
      client(sent.slice(split));
      agent(answered.slice(0, split));
      agent(answered.slice(split));
      expect(operations.map(({ key, errorCode }) => [key, errorCode])).toEqual([
        [GRIP, undefined],
        [GRIP, 67109115],
      ]);
    }
  });

  it('says whether the client is owed something', () => {
    const { client, agent, observer, clock } = watched();
    expect([observer.owed, observer.pending]).toEqual([true, undefined]);
    agent('# first\nOK');
    expect(observer.owed).toBe(true);
    agent('\n');
    expect([observer.owed, observer.pending]).toEqual([false, undefined]);
    client('PKSIG');
    expect(observer.owed).toBe(false);
    clock.now = 1234;
    client('N\n');
    expect([observer.owed, observer.pending]).toEqual([true, { command: 'PKSIGN', startedAt: 1234 }]);
    agent('S PROGRESS x\nD OK\n');
    expect(observer.owed).toBe(true);
    agent('OK\n');
    expect([observer.owed, observer.pending]).toEqual([false, undefined]);
  });

  it('tells what was open when the connection ended, once', () => {
    const { client, observer, agent, seen } = greeted();
    client(`NOP\nSIGKEY ${GRIP}\nPKSIGN\nD a\nD b\nBYE\n`);
    observer.end();
    observer.end();
    client('NOP\n');
    agent('OK\n');
    expect(seen()).toEqual(['NOP closed', `SIGKEY ${GRIP} closed`, `PKSIGN ${GRIP} closed`, 'BYE ok']);
    expect([observer.owed, observer.pending]).toEqual([false, undefined]);
  });

  it('has nothing to tell when a connection ends between commands', () => {
    const { client, agent, observer, seen } = greeted();
    client('BYE\n');
    agent('OK closing connection\n');
    observer.end();
    expect(seen()).toEqual(['BYE ok']);
    const silent = watched();
    silent.observer.end();
    expect(silent.seen()).toEqual([]);
  });

  it('owes nothing behind a BYE that was answered, whatever was sent with it', () => {
    const { client, agent, observer, seen } = greeted();
    client(`BYE\nPKSIGN\nNOP\n`);
    expect(observer.owed).toBe(true);
    agent('OK closing connection\n');
    expect([observer.owed, observer.pending]).toEqual([false, undefined]);
    client('NOP\n');
    observer.end();
    expect(seen()).toEqual(['BYE ok']);
  });

  it('ignores answers that nobody asked for', () => {
    const { client, agent, seen } = greeted();
    agent('OK\nERR 1\nINQUIRE x\n');
    client('NOP\n');
    agent('OK\n');
    expect(seen()).toEqual(['NOP ok']);
  });

  it.each(['s3cret', 'pass-word', '\xe4bc', 'A'.repeat(33), ' leading', '%41'])(
    'shows a line that is no command as a question mark: %j',
    (line) => {
      const { client, agent, operations } = greeted();
      client(`${line}\n`);
      agent('ERR 67109139 Unknown IPC command <GPG Agent>\n');
      expect(operations.map(({ command }) => command)).toEqual(['?']);
      expect(JSON.stringify(operations)).not.toContain(line.trim());
    },
  );

  it('lets no payload into what it tells', () => {
    const { client, agent, operations, observer } = greeted();
    client('PRESET_PASSPHRASE x SECRET\nSETKEYDESC SECRET\nD SECRET\nSIGKEY SECRET\n#SECRET\nPKDECRYPT\n');
    agent('OK SECRET\nS SECRET\nD SECRET\nERR 1 SECRET\nERR SECRET\nERR 1\nINQUIRE SECRET\n');
    client('D SECRET\nSECRET SECRET\n');
    agent('OK SECRET\n');
    observer.end();
    expect(operations.length).toBe(5);
    expect(JSON.stringify(operations)).not.toContain('SECRET');
  });

  it('stays bounded when a client sends ahead without end, and tells the rest as unknown', () => {
    const { client, agent, operations } = greeted();
    client(`SIGKEY ${GRIP}\n`);
    client('NOP\nHELP\n'.repeat(10_000));
    client(`SIGKEY ${OTHER}\nPKSIGN\n`);
    agent('OK\n'.repeat(20_003));
    expect(operations).toHaveLength(20_003);
    expect(operations.at(-1)).toMatchObject({ command: '?', outcome: 'ok' });
    client('PKSIGN\n');
    agent('OK\n');
    // An unknown line may have chosen another key.
    expect(operations.at(-1)).toEqual(expect.not.objectContaining({ key: expect.anything() }));
    client(`SIGKEY ${OTHER}\nPKSIGN\n`);
    agent('OK\nOK\n');
    expect(operations.at(-1)).toMatchObject({ command: 'PKSIGN', key: OTHER });
  });

  it('sees the same in any valid conversation, cut at any places', () => {
    fc.assert(
      fc.property(conversation, places, fc.boolean(), (turns, where, early) => {
        const { observer, operations } = watched();
        const feed = (from: 'client' | 'agent', bytes: Buffer) => {
          for (const chunk of cut(bytes, where)) {
            if (from === 'client') observer.fromClient(chunk);
            else observer.fromAgent(chunk);
          }
        };
        const all = (from: 'client' | 'agent') =>
          Buffer.concat(turns.filter((turn) => turn.from === from).map((turn) => turn.bytes));
        if (early) {
          feed('client', all('client'));
          feed('agent', all('agent'));
        } else {
          for (const turn of turns) feed(turn.from, turn.bytes);
        }
        const commands = turns.filter((turn) => turn.kind === 'command');
        const answers = turns.filter((turn) => turn.kind === 'response' && turn.word !== 'INQUIRE');
        expect(operations.map(({ command }) => command)).toEqual(
          commands.map(({ word }) => word.toUpperCase()),
        );
        expect(operations.map(({ outcome }) => (outcome === 'ok' ? 'OK' : 'ERR'))).toEqual(
          answers.map(({ word }) => word),
        );
        expect(observer.owed).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  it('changes none of the bytes it sees', () => {
    const { observer } = greeted();
    const sent = Buffer.from(`SIGKEY ${GRIP}\nPKSIGN\nD x\n`);
    const before = Buffer.from(sent);
    observer.fromClient(sent);
    observer.fromAgent(sent);
    expect(sent.equals(before)).toBe(true);
  });
});
