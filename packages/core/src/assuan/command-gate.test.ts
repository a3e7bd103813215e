import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Admission, CommandGate, type GateRules, PASS } from './command-gate.ts';
import type { Operation } from './operation.ts';

const GRIP = 'A'.repeat(40);

/** A gate whose outlets are kept, with the greeting behind it. */
function gate(rules: Partial<GateRules> = {}) {
  const sent = { agent: '', client: '', ends: [] as boolean[], resumes: 0 };
  const operations: Operation[] = [];
  const made = new CommandGate(
    {
      ...rules,
      finished(operation, goesOn) {
        operations.push(operation);
        return rules.finished?.(operation, goesOn);
      },
    },
    {
      toAgent: (bytes) => void (sent.agent += bytes.toString('latin1')),
      toClient: (bytes) => void (sent.client += bytes.toString('latin1')),
      endAgent: (isAnswered) => void sent.ends.push(isAnswered),
      resume: () => void sent.resumes++,
      broken: (error) => {
        throw error;
      },
    },
    { now: () => 1_000 },
  );
  const client = (text: string) => made.fromClient(Buffer.from(text, 'latin1'));
  const agent = (text: string) => made.fromAgent(Buffer.from(text, 'latin1'));
  agent('OK hello\n');
  return { made, sent, operations, client, agent };
}

const words = (operations: readonly Operation[]) =>
  operations.map(({ command, outcome }) => `${command} ${outcome}`);

describe('a gate', () => {
  it('gives the agent one command at a time, whatever is sent ahead', () => {
    const { sent, operations, client, agent } = gate();
    expect(client('NOP\nRESET\nGETINFO pid\n')).toBe(false);
    expect(sent.agent).toBe('NOP\n');
    agent('OK\n');
    expect(sent.agent).toBe('NOP\nRESET\n');
    agent('OK\n');
    agent('D 1\nOK\n');
    expect(sent.agent).toBe('NOP\nRESET\nGETINFO pid\n');
    expect(sent.client).toBe('OK hello\nOK\nOK\nD 1\nOK\n');
    expect(sent.resumes).toBe(1);
    expect(words(operations)).toEqual(['NOP ok', 'RESET ok', 'GETINFO ok']);
  });

  it('knows a signature behind any number of commands, and with which key it was made', () => {
    const { operations, client, agent } = gate();
    client(`${'NOP\n'.repeat(4_200)}SIGKEY ${GRIP}\nPKSIGN\n`);
    for (let answered = 0; answered < 4_201; answered++) agent('OK\n');
    agent('D signature\nOK\n');
    expect(operations.at(-1)).toMatchObject({ command: 'PKSIGN', key: GRIP, outcome: 'ok' });
  });

  it('takes command words in either case', () => {
    const { operations, client, agent } = gate();
    client(`sigkey ${GRIP}\npksign\n`);
    agent('OK\n');
    agent('OK\n');
    expect(operations.at(-1)).toMatchObject({ command: 'PKSIGN', key: GRIP });
  });

  it('passes the data of an inquiry as it comes, and what ends it', () => {
    const { sent, operations, client, agent } = gate();
    client('PKDECRYPT\n');
    agent('S INQUIRE_MAXLEN 255\nINQUIRE CIPH');
    expect(sent.client).toBe('OK hello\n');
    agent('ERTEXT\n');
    expect(sent.client).toContain('INQUIRE CIPHERTEXT\n');
    client('D ab');
    expect(sent.agent).toBe('PKDECRYPT\nD ab');
    client(`${'x'.repeat(900)}\n${`D ${'x'.repeat(990)}\n`.repeat(5)}END\nRESET\n`);
    expect(sent.agent.endsWith('END\n')).toBe(true);
    agent('D plain\nOK\n');
    expect(sent.agent.endsWith('END\nRESET\n')).toBe(true);
    agent('OK\n');
    expect(words(operations)).toEqual(['PKDECRYPT ok', 'RESET ok']);
  });

  it.each([
    ['D ', 'in one piece'],
    ['# ', 'in one piece'],
    ['D ', 'byte by byte'],
    ['  ', 'byte by byte'],
  ])(
    'takes what is behind the longest line of an inquiry for a command, as the agent does (%s, %s)',
    (start, how) => {
      const { sent, operations, client, agent } = gate({
        admit: ({ command }) => (command === 'GET_PASSPHRASE' ? { answer: Buffer.from('ERR 1\n') } : PASS),
      });
      client('PKDECRYPT\n');
      agent('INQUIRE CIPHERTEXT\n');
      const line = start.padEnd(1_002, 'x');
      const text = `${line}GET_PASSPHRASE x\nPKSIGN\n`;
      if (how === 'in one piece') client(text);
      else for (const byte of text) client(byte);
      expect(sent.agent).toBe(`PKDECRYPT\n${line}`);
      agent('ERR 67109127 Line passed to IPC too long <GPG Agent>\n');
      expect(sent.agent).toBe(`PKDECRYPT\n${line}PKSIGN\n`);
      agent('D signature\nOK\n');
      expect(words(operations)).toEqual(['PKDECRYPT error', 'GET_PASSPHRASE refused', 'PKSIGN ok']);
    },
  );

  it('does not pass a comment that the agent would cut', () => {
    const { sent, client } = gate();
    expect(() => client(`#${'x'.repeat(1_001)}PKSIGN\n`)).toThrow(/more than 1,000 bytes/);
    expect(sent.agent).toBe('');
  });

  it('withholds the answer to a private-key command until the rules were told of it', () => {
    let told = false;
    const { sent, client, agent } = gate({
      finished() {
        told = true;
        expect(sent.client).toBe('OK hello\n');
        return undefined;
      },
    });
    client('PKSIGN\n');
    agent('D a sig');
    agent('nature\n');
    expect(sent.client).toBe('OK hello\n');
    agent('OK\n');
    expect(told).toBe(true);
    expect(sent.client).toBe('OK hello\nD a signature\nOK\n');
  });

  it.each([
    ['D a signature\nOK\n', 'ok'],
    ['ERR 83886179 Operation cancelled <Pinentry>\n', 'cancelled'],
    ['ERR 67108922 No pinentry <GPG Agent>\n', 'cancelled'],
    ['', 'closed'],
  ])('waits for the end of a use whose client has left, and carries out nothing more (%j)', (said, late) => {
    const told: string[] = [];
    const { sent, operations, made, client, agent } = gate({
      finished: (_operation, goesOn) => void told.push(goesOn ? 'goes on' : 'done'),
      finishedLate: (outcome) => void told.push(outcome),
    });
    client('PKSIGN\nPKDECRYPT\n');
    agent('D a sig');
    expect(made.clientLeft()).toBe(true);
    expect(words(operations)).toEqual(['PKSIGN closed']);
    expect([made.isOver, made.pending]).toEqual([false, undefined]);
    agent('nature\n');
    if (said) agent(said);
    else made.end();
    expect(made.isOver).toBe(true);
    made.end();
    expect(told).toEqual(['goes on', late]);
    expect(sent).toMatchObject({ agent: 'PKSIGN\n', client: 'OK hello\n' });
    const idle = gate();
    idle.client('NOP\nPKSIGN\n');
    expect(idle.made.clientLeft()).toBe(false);
    expect(words(idle.operations)).toEqual(['NOP closed']);
  });

  it('gives an answer of the rules in place of the agent’s', () => {
    const { sent, client, agent } = gate({ finished: () => Buffer.from('ERR 1 no\n') });
    client('PKSIGN\n');
    agent('D a signature\nOK\n');
    expect(sent.client).toBe('OK hello\nERR 1 no\n');
  });

  it('answers what the rules refuse, and goes on with the next', () => {
    const { sent, operations, client, agent } = gate({
      admit: ({ command }): Admission => (command === 'SCD' ? { answer: Buffer.from('ERR 9\n') } : PASS),
    });
    client('SCD SERIALNO\nNOP\n');
    expect(sent.agent).toBe('NOP\n');
    expect(sent.client).toBe('OK hello\nERR 9\n');
    agent('OK\n');
    expect(words(operations)).toEqual(['SCD refused', 'NOP ok']);
  });

  it('sends what the rules put in the place of a command, and changes an answer that ends in OK', () => {
    const instead = Buffer.from('HAVEKEY B\n');
    const { sent, operations, client, agent } = gate({
      admit: ({ command }): Admission =>
        command === 'HAVEKEY'
          ? { pass: true, instead, edit: (answer) => Buffer.from(answer.toString().replace('secret', '')) }
          : PASS,
    });
    client('# comment\nHAVEKEY A\nHAVEKEY A\nNOP\n');
    expect(sent.agent).toBe('HAVEKEY B\n');
    agent('D a se');
    expect(sent.client).toBe('OK hello\n');
    agent('cret\nOK\n');
    expect(sent.client).toBe('OK hello\nD a \nOK\n');
    agent('ERR 1 secret\n');
    agent('OK secret\n');
    expect(sent.client).toBe('OK hello\nD a \nOK\nERR 1 secret\nOK secret\n');
    expect(words(operations)).toEqual(['HAVEKEY ok', 'HAVEKEY error', 'NOP ok']);
  });

  it('keeps a command back as long as the rules take', async () => {
    let admit = (_admission: Admission) => {};
    const { sent, made, client, agent } = gate({
      admit: ({ command }) =>
        command === 'PKSIGN'
          ? new Promise((resolve) => {
              admit = resolve;
            })
          : PASS,
    });
    expect(client('PKSIGN\nNOP\n')).toBe(false);
    expect(sent.agent).toBe('');
    expect(made.pending?.command).toBe('PKSIGN');
    admit(PASS);
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent.agent).toBe('PKSIGN\n');
    agent('OK\n');
    expect(sent.agent).toBe('PKSIGN\nNOP\n');
  });

  it('ends the agent’s side when everything of a client that ended was passed', () => {
    const { sent, made, client, agent } = gate();
    client('GETINFO version\nBYE\n');
    made.clientEnded();
    expect(sent.ends).toEqual([]);
    agent('OK\n');
    expect(sent.agent).toBe('GETINFO version\nBYE\n');
    expect(sent.ends).toEqual([false]);
  });

  it('says whether an agent owes a client that ended anything', () => {
    const answered = gate();
    answered.made.clientEnded();
    expect(answered.sent.ends).toEqual([true]);
    const owed = gate();
    owed.client('GETINFO version\n');
    owed.made.clientEnded();
    owed.agent('D 2.4\n');
    expect(owed.sent.ends).toEqual([false]);
    owed.agent('OK\n');
    expect(owed.sent.ends).toEqual([false, true]);
    const inquired = gate();
    inquired.client('PKDECRYPT\n');
    inquired.agent('INQUIRE CIPHERTEXT\n');
    inquired.made.clientEnded();
    expect(inquired.sent.ends).toEqual([false]);
  });

  it('passes nothing that came behind a BYE which was answered', () => {
    const { sent, client, agent } = gate();
    client('BYE\nNOP\nRESET\n');
    agent('OK closing connection\n');
    expect(sent.agent).toBe('BYE\n');
    expect(client('NOP\n')).toBe(true);
    expect(sent.agent).toBe('BYE\n');
  });

  it('reports what had no answer as closed, and BYE as done', () => {
    const one = gate();
    one.client('PKSIGN\nNOP\n');
    one.made.end();
    one.made.end();
    expect(words(one.operations)).toEqual(['PKSIGN closed']);
    const other = gate();
    other.client('BYE\n');
    other.made.end();
    expect(words(other.operations)).toEqual(['BYE ok']);
  });

  it('ends a session with a line that no command can have, and holds little of any', () => {
    const { client } = gate();
    expect(() => client('X'.repeat(1_100))).toThrow(/more than 1,000 bytes/);
    const comments = gate();
    comments.client('# a comment\n'.repeat(1_000));
    expect(comments.sent.agent.length).toBeGreaterThan(5_000);
  });

  it('passes the same bytes in the same order, cut at any places', () => {
    const conversation = `# hello\nGETINFO pid\n\nSETHASH 8 00\nPKDECRYPT\nD a%0Ab\nEND\nRESET\n`;
    const answers = ['D 12\nOK\n', 'OK\n', 'INQUIRE X\n', 'D p\nOK\n', 'OK\n'];
    fc.assert(
      fc.property(
        fc.array(fc.nat(conversation.length), { maxLength: 12 }),
        fc.array(fc.nat(40), { maxLength: 6 }),
        (cuts, answerCuts) => {
          const { sent, operations, client, agent } = gate();
          const places = [0, ...cuts.sort((a, b) => a - b), conversation.length];
          const pieces = places.slice(1).map((end, at) => conversation.slice(places[at], end));
          const queue = [...answers];
          let answered = 0;
          /** An agent that answers when a command or the end of data has come. */
          const work = () => {
            const lines = sent.agent.split('\n').slice(0, -1);
            const due = lines.filter(
              (line) => line && !line.startsWith('#') && !line.startsWith('D '),
            ).length;
            while (answered < due) {
              answered += 1;
              const text = queue.shift()!;
              const cut = Math.min(answerCuts[answered] ?? text.length, text.length);
              agent(text.slice(0, cut));
              agent(text.slice(cut));
              work();
            }
          };
          for (const piece of pieces) {
            client(piece);
            work();
          }
          expect(sent.agent).toBe(conversation);
          expect(sent.client).toBe(`OK hello\n${answers.join('')}`);
          expect(words(operations)).toEqual(['GETINFO ok', 'SETHASH ok', 'PKDECRYPT ok', 'RESET ok']);
        },
      ),
    );
  });
});
