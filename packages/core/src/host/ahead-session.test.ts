import { CIPHERTEXT } from '@gpg-bridge/test-support/ciphertext';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { describe, expect, it } from 'vitest';
import { onceOf } from '../assuan/answer-table.ts';
import { type GateRules, PASS } from '../assuan/command-gate.ts';
import type { Operation } from '../assuan/operation.ts';
import { decodeFields } from '../mux/fields.ts';
import { AheadSession } from './ahead-session.ts';
import { AnswersAhead } from './answers-ahead.ts';
import { decideByGrant } from './gpg-grant.ts';
import { QuestionsAhead } from './questions-ahead.ts';

const GRIP = 'A'.repeat(40);
const HASH = '0'.repeat(64);
const VERSION = 'D 2.2.40\nOK\n';
const CHANGED = "ERR 67108941 No agent running <GPG Agent> - the agent's answers changed\n";
const NO_KEY = 'ERR 67108881 No secret key <GPG Agent>\n';
const FORBIDDEN = 'ERR 67109115 Forbidden <GPG Agent>\n';

/** What a session with an agent that a test plays does, and the target's table. */
function session({
  rules = {},
  recent = [],
  hurry = false,
  opened = {},
}: {
  rules?: Partial<GateRules>;
  recent?: string[];
  hurry?: boolean;
  /** Lines that were asked when the session was opened, and the answers. */
  opened?: Record<string, string>;
} = {}) {
  const clock = { now: 1_000 };
  const book = new LogBook();
  const sent = { agent: '', client: '', turns: [] as Buffer[], ends: [] as boolean[] };
  const operations: Operation[] = [];
  const notes: Buffer[] = [];
  const answers = new AnswersAhead({ log: book.log, onChange: () => {} });
  answers.connected({ version: VERSION, socket: 's' }, 'OK hello\n');
  for (const line of recent) answers.used(line);
  const text = (bytes: Buffer) => bytes.toString('latin1');
  const made = new AheadSession({
    answers,
    rules: {
      ...rules,
      finished(operation) {
        operations.push(operation);
        return rules.finished?.(operation);
      },
    },
    out: {
      toAgent: (bytes) => void (sent.agent += text(bytes)),
      toClient: (bytes) => void (sent.client += text(bytes)),
      toClientInTurn(bytes, turn) {
        sent.client += text(bytes);
        sent.turns.push(turn);
      },
      endAgent: (isAnswered) => void sent.ends.push(isAnswered),
      resume: () => {},
      broken: (error) => {
        throw error;
      },
    },
    takeTold: () => notes.splice(0),
    now: () => clock.now,
    hurry,
  });
  const agent = (said: string) => made.fromAgent(Buffer.from(said, 'latin1'));
  const idFor = (line: string) =>
    answers.table.entries.find(({ pattern }) => new RegExp(pattern).test(line))?.id ?? 0;
  const questions = new QuestionsAhead(
    Object.keys(opened),
    (...command) => rules.admit?.(...command) ?? PASS,
  );
  const blocks = Object.values(opened).map((said) => {
    const bytes = Buffer.from(said, 'latin1');
    return { bytes, word: said.startsWith('ERR') ? 'ERR' : 'OK', line: bytes };
  });
  made.begin(Buffer.from('OK hello\n'), questions, blocks);
  return {
    clock,
    made,
    sent,
    operations,
    answers,
    book,
    agent,
    idFor,
    /** What the target sends when a line waits: told ones, and then it. */
    client(told: readonly string[], waits = '', ids = told.map(idFor)) {
      if (told.length > 0) {
        const note = Buffer.alloc(4 * ids.length);
        for (const [index, id] of ids.entries()) note.writeUInt32BE(id, 4 * index);
        notes.push(note);
      }
      made.fromClient(Buffer.from(told.map((line) => `${line}\n`).join('') + waits, 'latin1'));
    },
    /** Lines that the agent has got since the last call. */
    asked() {
      const lines = sent.agent.split('\n').slice(0, -1);
      sent.agent = '';
      return lines;
    },
    along: () => sent.turns.flatMap((turn) => onceOf(decodeFields(turn.subarray(4)) ?? [])),
  };
}

const SETTINGS = ['RESET', `SIGKEY ${GRIP}`, 'SETKEYDESC for+you', `SETHASH 8 ${HASH}`];

describe('told commands', () => {
  it('reach the agent together, before the one that waits, whose answer alone goes to the client', () => {
    const { client, agent, asked, sent, operations } = session();
    client(SETTINGS, 'PKSIGN\n');
    for (const answered of SETTINGS.keys()) {
      expect(asked()).toEqual(answered === 0 ? SETTINGS : []);
      agent('OK\n');
    }
    expect(asked()).toEqual(['PKSIGN']);
    expect(sent.client).toBe('');
    agent('D signature\nOK\n');
    expect(sent.client).toBe('D signature\nOK\n');
    expect(operations.map(({ command, key }) => [command, key])).toEqual([
      ['RESET', undefined],
      ['SIGKEY', GRIP],
      ['SETKEYDESC', undefined],
      ['SETHASH', undefined],
      ['PKSIGN', GRIP],
    ]);
  });

  it('are followed by the client’s turn when all it sent is answered, and not before', () => {
    const { client, agent, sent } = session();
    client(['RESET'], 'NOP\nHAVEKEY\n');
    agent('OK\n');
    agent('OK\n');
    expect(sent.turns).toEqual([]);
    agent(NO_KEY);
    expect(sent.client).toBe(`OK\n${NO_KEY}`);
    expect(sent.turns.map((turn) => turn.readUInt32BE(0))).toEqual(['RESET\nNOP\nHAVEKEY\n'.length]);
  });

  it('give no turn inside an inquiry, or behind half a line', () => {
    const { client, agent, sent } = session();
    client([], 'PKDECRYPT\n');
    agent('INQUIRE CIPHERTEXT\n');
    expect(sent.client).toBe('INQUIRE CIPHERTEXT\n');
    client([], `D ${CIPHERTEXT}\nEND\nNO`);
    agent('D plain\nOK\n');
    expect(sent.client).toBe('INQUIRE CIPHERTEXT\nD plain\nOK\n');
    expect(sent.turns).toEqual([]);
    client([], 'P\n');
    agent('OK\n');
    expect(sent.turns).toHaveLength(1);
  });

  it.each([1, 7, 30])('are put together from pieces of %i bytes', (size) => {
    const { client, agent, asked, made, sent } = session();
    client(
      SETTINGS.slice(0, 1),
      '',
      SETTINGS.map((line) => session().idFor(line)),
    );
    const rest = Buffer.from(`${SETTINGS.slice(1).join('\n')}\nNOP\n`);
    for (let at = 0; at < rest.length; at += size) made.fromClient(Buffer.from(rest.subarray(at, at + size)));
    agent('OK\n');
    agent('O');
    agent('K\n');
    agent('OK\n');
    agent('OK\n');
    expect(asked()).toEqual([...SETTINGS, 'NOP']);
    agent(NO_KEY);
    expect(sent.client).toBe(NO_KEY);
  });

  it('that the rules change have their turn alone', () => {
    const admit: GateRules['admit'] = (_operation, block) =>
      block.includes('SETKEYDESC') ? { pass: true, instead: Buffer.from('NOP\n') } : PASS;
    const { client, agent, asked } = session({ rules: { admit } });
    client(SETTINGS, 'HAVEKEY\n');
    expect(asked()).toEqual(SETTINGS.slice(0, 2));
    agent('OK\nOK\n');
    expect(asked()).toEqual(['NOP', SETTINGS[3]]);
    agent('OK\nOK\n');
    expect(asked()).toEqual(['HAVEKEY']);
  });

  it('that have to wait are not decided about at every answer, but when they come and when it is their turn', () => {
    const decided: string[] = [];
    const admit: GateRules['admit'] = ({ command }, block) => {
      decided.push(command);
      return command === 'SETHASH' ? { pass: true, instead: Buffer.from(block) } : PASS;
    };
    const { client, agent, asked } = session({ rules: { admit } });
    client(SETTINGS, 'HAVEKEY\n');
    for (const _answer of SETTINGS) agent('OK\n');
    expect(asked()).toEqual([...SETTINGS, 'HAVEKEY']);
    expect(decided).toEqual(['RESET', 'SIGKEY', 'SETKEYDESC', 'SETHASH', 'SETHASH', 'HAVEKEY']);
  });

  it('are told as closed, each of them, when the agent goes', () => {
    const { client, made, operations } = session();
    client(SETTINGS, 'PKSIGN\n');
    made.gate.end();
    expect(operations.map(({ command, outcome }) => [command, outcome])).toEqual([
      ['RESET', 'closed'],
      ['SIGKEY', 'closed'],
      ['SETKEYDESC', 'closed'],
      ['SETHASH', 'closed'],
    ]);
  });

  it('may be all that a client sends before it leaves', () => {
    const { client, agent, asked, made, sent } = session();
    client(['RESET', `SIGKEY ${GRIP}`]);
    made.gate.clientEnded();
    agent('OK\n');
    expect(asked()).toEqual(['RESET', `SIGKEY ${GRIP}`]);
    agent('OK\n');
    expect(sent.client).toBe('');
    expect(sent.ends.at(-1)).toBe(true);
  });
});

describe('an answer that is not as told', () => {
  it('goes to the command that waits if it is an error, and that command does not go to the agent', () => {
    const { client, agent, asked, sent, book, idFor } = session();
    client(SETTINGS, 'PKSIGN\n');
    agent('OK\n');
    agent(`S NOTE not+for+the+client\n${NO_KEY}`);
    agent('OK\n');
    agent('OK\n');
    expect(sent.client).toBe(NO_KEY);
    expect(asked()).toEqual(SETTINGS);
    expect(sent.turns).toHaveLength(1);
    expect(idFor(`SIGKEY ${GRIP}`)).toBe(0);
    expect(idFor(`SETKEY ${GRIP}`)).not.toBe(0);
    expect(book.text).toContain('SIGKEY with No secret key <GPG Agent>, and the client had been told OK');
    expect(book.text).not.toContain(GRIP);
  });

  it.each([
    ['OK', 'OK but other words\n'],
    ['data', 'D something\nOK\n'],
    ['a status and OK', 'S PROGRESS x\nOK\n'],
  ])('that is %s becomes an error', (_name, answer) => {
    const { client, agent, sent } = session();
    client(SETTINGS, 'HAVEKEY\n');
    for (const said of [answer, 'OK\n', 'OK\n', 'OK\n']) agent(said);
    expect(sent.client).toBe(CHANGED);
  });

  it('that is an OK to a refusal that was told becomes an error, too: gpgsm would take it for trust', () => {
    const { client, agent, sent, answers, asked } = session();
    const forbidden = 'ERR 67109115 Forbidden <GPG Agent>\n';
    answers.learn('SCD SERIALNO', Buffer.from(forbidden));
    client(['SCD SERIALNO'], `ISTRUSTED ${GRIP}\n`);
    agent('D card\nOK\n');
    expect(asked()).toEqual(['SCD SERIALNO']);
    expect(sent.client).toBe(CHANGED);
  });

  it('that is an inquiry is cancelled', () => {
    const { client, agent, asked, sent } = session();
    client([`SETHASH 8 ${HASH}`], 'PKSIGN\n');
    agent('INQUIRE TBSDATA\n');
    expect(asked()).toEqual([`SETHASH 8 ${HASH}`, 'CAN']);
    agent('ERR 67109141 IPC call has been cancelled <GPG Agent>\n');
    expect(asked()).toEqual([]);
    expect(sent.client).toBe(CHANGED);
  });

  it('that is an inquiry with told commands behind it ends the session, and is not told again', () => {
    const { client, agent, asked, sent, idFor } = session();
    client(SETTINGS, 'PKSIGN\n');
    expect(() => agent('INQUIRE DATA\n')).toThrow('asked for data where it never did before');
    expect(asked()).not.toContain('PKSIGN');
    expect(sent.client).toBe('');
    expect(idFor('RESET')).toBe(0);
  });

  it('lets no private key be used until a RESET was really answered OK', () => {
    const { client, agent, asked, sent, operations } = session();
    client([`SIGKEY ${GRIP}`], 'HAVEKEY\n');
    agent(NO_KEY);
    expect(sent.client).toBe(NO_KEY);
    const refused = (waits: string) => {
      sent.client = '';
      client([], waits);
      return sent.client;
    };
    for (const word of ['PKSIGN', 'pksign', 'PKDECRYPT']) expect(refused(`${word}\n`)).toBe(NO_KEY);
    expect(operations.slice(-3).map(({ outcome }) => outcome)).toEqual(['refused', 'refused', 'refused']);
    asked();
    client(['RESET'], 'PKSIGN\n');
    agent('ERR 1 no\n');
    expect(asked()).toEqual(['RESET']);
    client([], 'RESET\n');
    agent('OK\n');
    client([], 'PKSIGN\n');
    expect(asked()).toEqual(['RESET', 'PKSIGN']);
  });

  it('holds for the waiting command even when a RESET behind it was answered OK', () => {
    const { client, agent, asked, sent } = session();
    client([`SETHASH 8 ${HASH}`, ...SETTINGS], 'PKSIGN\n');
    agent(NO_KEY);
    for (const _ of SETTINGS) agent('OK\n');
    expect(asked()).not.toContain('PKSIGN');
    expect(sent.client).toBe(NO_KEY);
    client([], 'PKSIGN\n');
    expect(asked()).toEqual(['PKSIGN']);
  });

  it('counts the same when the rules gave it', async () => {
    const refusal = Buffer.from('ERR 67108881 No secret key <GPG Agent> - a rule\n');
    let isOver = false;
    const admit = (): { answer: Buffer } | { pass: true } => (isOver ? { answer: refusal } : { pass: true });
    const { client, agent, sent, along } = session({ rules: { admit }, recent: [`HAVEKEY ${GRIP}`] });
    client([], 'NOP\n');
    agent('OK\n');
    await new Promise(setImmediate);
    agent('OK\n');
    const [entry] = along();
    isOver = true;
    client([`HAVEKEY ${GRIP}`], 'NOP\n', [entry!.id]);
    expect(sent.client).toBe(`OK\n${refusal}`);
  });
});

describe('with an agent whose answers come in pieces', () => {
  it('a comment is sent for each piece of an answer that is not the last, and none inside an inquiry', () => {
    const { client, agent, asked, sent } = session({ hurry: true });
    client(SETTINGS, 'PKDECRYPT\n');
    expect(asked()).toEqual(SETTINGS);
    for (const piece of ['OK', '\nOK', '\nOK\nOK']) agent(piece);
    expect(asked()).toEqual(['#', '#', '#']);
    agent('\n');
    expect(asked()).toEqual(['PKDECRYPT']);
    for (const piece of ['S PADDING 0', '\n', 'INQUIRE CIPHER', 'TEXT', '\n']) agent(piece);
    expect(asked()).toEqual(['#', '#', '#', '#']);
    client([], `D ${CIPHERTEXT}\nEND\n`);
    expect(asked()).toEqual([`D ${CIPHERTEXT}`, 'END']);
    for (const piece of ['D plain\n', 'OK', '\n']) agent(piece);
    expect(asked()).toEqual(['#', '#']);
    expect(sent.client).toBe('S PADDING 0\nINQUIRE CIPHERTEXT\nD plain\nOK\n');
  });

  it('lines of our own are hurried, too', async () => {
    const { client, agent, asked } = session({ hurry: true, recent: [`HAVEKEY ${GRIP}`] });
    client([], 'NOP\n');
    agent('OK');
    expect(asked()).toEqual([`HAVEKEY ${GRIP}`, '#']);
    agent('\n');
    await new Promise(setImmediate);
    expect(asked()).toEqual(['NOP']);
  });
});

describe('what no target of ours tells', () => {
  it.each([
    ['another line than the entry is for', 'GETINFO pid', 'RESET'],
    ['a use of a private key', 'PKSIGN', 'RESET'],
    ['an entry that never was', 'RESET', 'none'],
  ])('%s reaches nobody, and the next command is refused', (_name, line, entry) => {
    const { client, asked, sent, idFor } = session();
    client([line], 'NOP\n', [idFor(entry)]);
    expect(asked()).toEqual([]);
    expect(sent.client).toBe(CHANGED);
  });

  it('more told lines than were sent stay told when they come', () => {
    const { client, agent, sent, idFor } = session();
    client(['RESET'], '', [idFor('RESET'), idFor('RESET')]);
    client([], 'NOP\n');
    agent('OK\n');
    expect(sent.client).toBe('');
  });
});

describe('a line that was asked when the session was opened', () => {
  const [first, second] = [`HAVEKEY ${GRIP}`, `HAVEKEY ${'B'.repeat(40)}`] as const;
  const opened = { [first]: 'OK\n', [second]: NO_KEY };

  it('is answered at once, goes to the agent with the told ones, and is compared', () => {
    const { client, agent, asked, sent, along, operations, made } = session({ opened });
    client(['RESET', 'GETINFO version'], `${first}\n`);
    expect(sent.client).toBe('OK\n');
    expect(sent.turns).toHaveLength(1);
    expect(asked()).toEqual(['RESET', 'GETINFO version', first]);
    expect(along().map(({ line, answer }) => [line, answer])).toEqual(Object.entries(opened));
    expect(made.owed).toBe(false);
    agent(`OK\n${VERSION}OK\n`);
    client(SETTINGS, 'PKSIGN\n');
    agent('OK\n'.repeat(SETTINGS.length));
    agent('D signature\nOK\n');
    expect(sent.client).toBe('OK\nD signature\nOK\n');
    expect(operations.map(({ command }) => command)).toEqual([
      ...['RESET', 'GETINFO', 'HAVEKEY'],
      ...['RESET', 'SIGKEY', 'SETKEYDESC', 'SETHASH', 'PKSIGN'],
    ]);
  });

  it('needs no told ones ahead of it, and the next come while the agent is at it', () => {
    const { client, agent, asked, sent } = session({ opened });
    client([], `${first}\n`);
    client(SETTINGS, 'PKSIGN\n');
    expect(asked()).toEqual([first, ...SETTINGS]);
    agent('OK\n'.repeat(1 + SETTINGS.length));
    expect(asked()).toEqual(['PKSIGN']);
    agent('D signature\nOK\n');
    expect(sent.client).toBe('OK\nD signature\nOK\n');
  });

  it('that the agent answers otherwise is followed by no use of a key', () => {
    for (const [said, gets] of [
      [NO_KEY, NO_KEY],
      ['D something\nOK\n', CHANGED],
    ] as const) {
      const { client, agent, asked, sent, book } = session({ opened });
      client([], `${first}\n`);
      client([...SETTINGS].slice(1), 'PKSIGN\n');
      agent(said);
      agent('OK\n'.repeat(SETTINGS.length - 1));
      expect(asked()).not.toContain('PKSIGN');
      expect(sent.client).toBe(`OK\n${gets}`);
      expect(book.text).toContain('the client had been told OK');
    }
  });

  it('is not answered so behind a told answer that was another one: it gets that', () => {
    const { client, agent, asked, sent } = session({ opened });
    client(['RESET']);
    agent(NO_KEY);
    client([], `${first}\n`);
    expect(sent.client).toBe(NO_KEY);
    expect(asked()).toEqual(['RESET']);
  });

  it('keeps its place among told ones where the rules make something else of it', () => {
    const list = 'HAVEKEY --list=1000';
    const grant = { keygrips: new Set([GRIP]) };
    const rules: Partial<GateRules> = {
      admit: (operation, block) => decideByGrant(operation, block, grant) ?? PASS,
    };
    const { client, agent, asked, sent } = session({ rules, opened: { [list]: 'OK\n' } });
    client(['RESET'], `${list}\n`);
    client(SETTINGS, 'PKSIGN\n'); // before the agent has said anything
    sent.client = '';
    const seen: string[] = [];
    for (let lines: string[]; (lines = asked()).length > 0; ) {
      for (const line of lines) {
        seen.push(line);
        agent(line === 'PKSIGN' ? 'D signature\nOK\n' : 'OK\n');
      }
    }
    expect(seen).toEqual(['RESET', list, ...SETTINGS, 'PKSIGN']);
    expect(sent.client).toBe('D signature\nOK\n');
  });

  it('lends its place to no other: a target that counts a comment among its lines gets nothing signed', () => {
    const { client, agent, asked, sent, idFor } = session({ opened });
    const id = idFor('RESET');
    client(['# a comment', 'RESET'], `${first}\n`, [id, id]);
    sent.client = '';
    client([], 'PKSIGN\n');
    const seen: string[] = [];
    for (let lines: string[]; (lines = asked()).length > 0; seen.push(...lines)) {
      for (const _line of lines) agent('OK\n');
    }
    expect(seen).not.toContain('PKSIGN');
    expect(sent.client).toBe(CHANGED);
  });

  it('waits if anything is behind it, or ahead of it that was not told', () => {
    for (const waits of [`${first}\n${second}\n`, `# comment\n${first}\n`, `${first}\nRE`]) {
      const { client, agent, answers, sent } = session({ opened });
      answers.learn(`KEYINFO ${GRIP}`, Buffer.from(FORBIDDEN));
      client(['RESET'], waits);
      expect(sent.client).toBe('');
      agent('OK\n');
      agent('OK\n');
      expect(sent.client).toBe('OK\n');
    }
  });

  it('is asked anew when that was long ago, with what else the target used lately', async () => {
    const { client, agent, answers, asked, sent, along, clock } = session({
      opened,
      recent: [first, second],
    });
    answers.learn(`KEYINFO ${GRIP}`, Buffer.from(FORBIDDEN));
    clock.now += 1_001;
    client([], `${first}\n`);
    expect(sent.client).toBe('');
    expect(asked()).toEqual([second]);
    agent('OK\n');
    await new Promise(setImmediate);
    expect(asked()).toEqual([first]);
    agent(NO_KEY);
    expect(sent.client).toBe(NO_KEY);
    expect(along().map(({ line, answer }) => [line, answer])).toEqual([
      [second, 'OK\n'],
      [first, NO_KEY],
    ]);
  });

  it('is sent along with the first command that waits, which is another', () => {
    const { client, agent, asked, along } = session({ opened, recent: [first, second] });
    client([], 'NOP\n');
    expect(asked()).toEqual(['NOP']);
    agent('OK\n');
    expect(along().map(({ line, answer }) => [line, answer])).toEqual(Object.entries(opened));
  });

  it('is told as the rules make it', () => {
    const edit = (answer: Buffer) => Buffer.from(answer.toString().replace('all', 'some'));
    const instead = Buffer.from('HAVEKEY --list=1\n');
    const rules: Partial<GateRules> = {
      admit: ({ command }) => (command === 'HAVEKEY' ? { pass: true, instead, edit } : PASS),
    };
    const { client, agent, asked, sent, book } = session({
      rules,
      opened: { 'HAVEKEY --list': 'D all\nOK\n' },
    });
    client(['RESET'], 'HAVEKEY --list\n');
    expect(sent.client).toBe('D some\nOK\n');
    expect(asked()).toEqual(['RESET']);
    agent('OK\n');
    expect(asked()).toEqual(['HAVEKEY --list=1']);
    agent('D all\nOK\n');
    expect(book.text).toBe('');
  });
});

describe('answers that are sent along', () => {
  const [first, second] = [`HAVEKEY ${GRIP}`, `HAVEKEY ${'B'.repeat(40)}`];

  it('are asked behind the told commands, before the first that waits, and serve once', async () => {
    const { client, agent, asked, sent, along, answers } = session({ recent: [first, second] });
    client(['RESET'], 'NOP\n');
    expect(asked()).toEqual(['RESET']);
    agent('OK\n');
    expect(asked()).toEqual([first, second]);
    agent('OK\nERR 67108');
    agent('881 No secret key <GPG Agent>\n');
    await new Promise(setImmediate);
    expect(asked()).toEqual(['NOP']);
    agent('OK\n');
    expect(sent.client).toBe('OK\n');
    expect(along()).toMatchObject([
      { line: first, answer: 'OK\n' },
      { line: second, answer: NO_KEY },
    ]);
    const [entry] = along();
    client([first!], 'NOP\n', [entry!.id]);
    expect(asked()).toEqual([first]);
    agent('OK\n');
    agent('OK\n');
    expect(sent.client).toBe('OK\nOK\n');
    client([first!], 'NOP\n', [entry!.id]);
    expect(sent.client).toBe(`OK\nOK\n${CHANGED}`);
    expect(answers.recent).toContain(first);
  });

  it('include the answer to the line that waits also if it comes in parts, but not behind an inquiry', () => {
    const forbidden = 'ERR 67109115 Forbidden <GPG Agent>\n';
    for (const [parts, isKept] of [
      [['O', 'K', '\n'], true],
      [['D some', 'thing\nO', 'K\n'], true],
      [[`D ${'x'.repeat(900)}\n`, `D ${'x'.repeat(900)}\n`, 'OK', '\n'], false],
      [['S some', 'thing\nINQUIRE SOMETHING\n'], false],
    ] as const) {
      const { client, agent, along, answers, sent } = session({ recent: [first!] });
      answers.learn(`KEYINFO ${GRIP}`, Buffer.from(forbidden));
      client([], `${first}\n`);
      for (const part of parts) agent(part);
      if (!parts.join('').endsWith('OK\n')) {
        client([], 'END\n');
        agent('OK\n');
      }
      expect(along()).toMatchObject(isKept ? [{ line: first, answer: parts.join('') }] : []);
      client([], 'PKSIGN\n');
      agent('D signature\nOK\n');
      expect(sent.client).toMatch(/D signature\nOK\n$/);
      expect(along()).toHaveLength(isKept ? 1 : 0);
    }
  });

  it('include the answer to the line that waits, which is asked once', () => {
    const { client, agent, asked, along, answers } = session({ recent: [first!] });
    answers.learn(`KEYINFO ${GRIP}`, Buffer.from('ERR 67109115 Forbidden <GPG Agent>\n'));
    client([], `${first}\n`);
    expect(asked()).toEqual([first]);
    agent(NO_KEY);
    expect(along()).toMatchObject([{ line: first, answer: NO_KEY }]);
    const [entry] = along();
    client([first!], 'NOP\n', [entry!.id]);
    agent(NO_KEY);
    expect(asked()).toEqual([first, 'NOP']);
  });

  it('are what gpg asks about a key next, unless the agent forbids that or nobody asks it', async () => {
    const info = `KEYINFO ${GRIP}`;
    const { client, agent, asked, sent, along, answers } = session();
    client([], 'NOP\n');
    agent('OK\n');
    client([], `${first}\n`);
    expect(asked()).toEqual(['NOP', info]);
    agent('S KEYINFO\nOK\n');
    await new Promise(setImmediate);
    expect(asked()).toEqual([first]);
    agent('OK\n');
    const [entry] = along();
    expect(entry).toMatchObject({ line: info, answer: 'S KEYINFO\nOK\n' });
    client([info], 'NOP\n', [entry!.id]);
    expect(asked()).toEqual([info]);
    agent('S KEYINFO\nOK\n');
    agent('OK\n');
    expect(sent.client).toBe('OK\nOK\nOK\n');
    expect(answers.recent).toEqual([first, info]);
    expect(answers.followers(first)).toEqual([]);
    const unused = Array.from({ length: 10 }, () => answers.followers(second).length);
    expect(unused).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    answers.learn(`KEYINFO ${'C'.repeat(40)}`, Buffer.from('ERR 67109115 Forbidden <GPG Agent>\n'));
    expect(answers.followers(`HAVEKEY ${'D'.repeat(40)}`)).toEqual([]);
  });

  it('are not asked for a use of a private key, or where the rules refuse the line', () => {
    const admit: GateRules['admit'] = (_operation, block) =>
      block.includes(GRIP) ? { answer: Buffer.from(NO_KEY) } : { pass: true };
    const narrowed = session({ rules: { admit }, recent: [first] });
    narrowed.client([], 'NOP\n');
    expect(narrowed.asked()).toEqual(['NOP']);
    const signing = session({ recent: [first] });
    signing.client([], 'PKSIGN\n');
    expect(signing.asked()).toEqual(['PKSIGN']);
  });

  it('are what the rules make of them', async () => {
    const admit: GateRules['admit'] = (_operation, block) =>
      block.includes('--list')
        ? { pass: true, instead: Buffer.from('HAVEKEY --list=1\n'), edit: () => Buffer.from('D less\nOK\n') }
        : { pass: true };
    const { client, agent, asked, along, sent } = session({ rules: { admit }, recent: ['HAVEKEY --list=9'] });
    client([], 'NOP\n');
    expect(asked()).toEqual(['HAVEKEY --list=1']);
    agent('D more\nOK\n');
    await new Promise(setImmediate);
    agent('OK\n');
    const [entry] = along();
    expect(entry).toMatchObject({ line: 'HAVEKEY --list=9', answer: 'D less\nOK\n' });
    client(['HAVEKEY --list=9'], 'NOP\n', [entry!.id]);
    expect(asked()).toEqual(['NOP', 'HAVEKEY --list=1']);
    agent('D more\nOK\n');
    agent('OK\n');
    expect(sent.client).toBe('OK\nOK\n');
  });

  it('are asked along in the one spelling that the rules decide about', () => {
    const other = 'B'.repeat(40);
    const asked = session({
      recent: [
        `havekey ${other}`,
        `HAVEKEY\t${other}`,
        `Keyinfo ${other}`,
        `HAVEKEY ${other}\0`,
        `HAVEKEY ${GRIP}`,
      ],
    });
    asked.client([], 'GETINFO pid\n');
    expect(asked.asked()).toEqual([`HAVEKEY ${GRIP}`]);
  });
});
