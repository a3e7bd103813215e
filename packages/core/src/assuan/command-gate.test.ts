import { CIPHERTEXT } from '@gpg-bridge/test-support/ciphertext';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Admission, CommandGate, type GateRules, PASS } from './command-gate.ts';
import type { Operation } from './operation.ts';

const GRIP = 'A'.repeat(40);

/** A gate whose outlets are kept, with the greeting behind it. */
function gate(rules: Partial<GateRules> = {}) {
  const sent = { agent: '', client: '', ends: [] as boolean[], resumes: 0 };
  const operations: Operation[] = [];
  const broken: string[] = [];
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
      broken: (error) => void broken.push(error.code),
    },
    { now: () => 1_000 },
  );
  // Chunks are read into the same memory again once the gate has taken them.
  const chunk = Buffer.alloc(128 * 1024);
  const chunkOf = (text: string) => chunk.fill('!').subarray(0, chunk.write(text, 'latin1'));
  const client = (text: string) => made.fromClient(chunkOf(text));
  const agent = (text: string) => made.fromAgent(chunkOf(text));
  agent('OK hello\n');
  return { made, sent, broken, operations, client, agent };
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

  it.each(['ERR 67109144 IPC parameter error\n', 'ERR 67108963 cancelled\n', 'ERR\n'])(
    'knows that a key is not chosen when the agent answers %j',
    (answer) => {
      const { operations, client, agent } = gate();
      client(`SIGKEY ${GRIP}\nSIGKEY ${'B'.repeat(40)}\nSETKEY --another ${'B'.repeat(40)}\nPKSIGN\n`);
      for (const said of ['OK\n', answer, answer, 'D signature\nOK\n']) agent(said);
      expect(operations.at(-1)).toMatchObject({ command: 'PKSIGN', key: GRIP, outcome: 'ok' });
      expect(operations.at(-1)).not.toHaveProperty('another');
    },
  );

  it('takes command words in either case', () => {
    const { operations, client, agent } = gate();
    client(`sigkey ${GRIP}\npksign\n`);
    agent('OK\n');
    agent('OK\n');
    expect(operations.at(-1)).toMatchObject({ command: 'PKSIGN', key: GRIP });
  });

  it('passes the data of an inquiry line by line, and what ends it', () => {
    const { sent, operations, client, agent } = gate();
    client('SETHASH --inquire\n');
    agent('S INQUIRE_MAXLEN 255\nINQUIRE TBSDATA\n');
    expect(sent.client).toContain('INQUIRE TBSDATA\n');
    client('D ab');
    expect(sent.agent).toBe('SETHASH --inquire\n');
    client(`${'x'.repeat(900)}\n${`D ${'x'.repeat(999)}\n`.repeat(5)}END\nRESET\n`);
    expect(sent.agent.endsWith('END\n')).toBe(true);
    agent('D plain\nOK\n');
    expect(sent.agent.endsWith('END\nRESET\n')).toBe(true);
    agent('OK\n');
    expect(words(operations)).toEqual(['SETHASH ok', 'RESET ok']);
  });

  it('gives the agent a ciphertext when it is whole, and nothing of one that is taken back', () => {
    const { sent, operations, client, agent } = gate();
    client('PKDECRYPT\n');
    agent('S INQUIRE_MAXLEN 255\nINQUIRE CIPH');
    expect(sent.client).toBe('OK hello\n');
    agent('ERTEXT\n');
    client(`D ${CIPHERTEXT.slice(0, 9)}\nd ${CIPHERTEXT.slice(9)}\r\n`);
    expect(sent.agent).toBe('PKDECRYPT\n');
    client('END\n');
    const lines = `D ${CIPHERTEXT.slice(0, 9)}\nd ${CIPHERTEXT.slice(9)}\r\n`;
    expect(sent.agent).toBe(`PKDECRYPT\n${lines}END\n`);
    agent('D plain\nOK\n');
    client('PKDECRYPT\n');
    agent('INQUIRE CIPHERTEXT\n');
    client('D x\nCAN\n');
    expect(sent.agent).toBe(`PKDECRYPT\n${lines}END\nPKDECRYPT\nCAN\n`);
    agent('ERR 67109141 cancelled\n');
    expect(words(operations)).toEqual(['PKDECRYPT ok', 'PKDECRYPT cancelled']);
  });

  it.each([
    ['with a flag', 'D (7:enc-val(5:flags11:no-blinding)(3:rsa(1:a4:abcd)))\nEND\n'],
    ['cut off', `D ${CIPHERTEXT.slice(0, -1)}\nEND\n`],
    ['followed by something', `D ${CIPHERTEXT}\nD x\nEND\n`],
    ['none', 'END\n'],
    ['without an end', `D ${'x'.repeat(900)}\n`.repeat(19)],
  ])('ends a session whose ciphertext is %s, and the agent gets nothing of it', (_what, data) => {
    const { sent, operations, broken, client, agent } = gate();
    client('PKDECRYPT\n');
    agent('INQUIRE CIPHERTEXT\n');
    client(data);
    expect(sent.agent).toBe('PKDECRYPT\nCAN\n');
    expect(sent.client).toMatch(/INQUIRE CIPHERTEXT\nERR [0-9]+ [^\n]*\n$/);
    expect([broken, words(operations)]).toEqual([['BAD_INQUIRY_DATA'], ['PKDECRYPT refused']]);
  });

  it.each([
    ['an escape without digits', 'D ab%\n'],
    ['an escape with one digit', 'D ab%4\n'],
    ['an escape that the line end cuts', 'D ab%4\r\n'],
    ['an escape that is no number', 'D %zz\n'],
    ['a bare CR', 'D a\rb\n'],
    ['a line that is too long', `D ${'x'.repeat(1_000)}\n`],
    ['a line that is too long with its CR', `D ${'x'.repeat(999)}\r\n`],
    ['a comment that is too long', `#${'x'.repeat(1_001)}\n`],
    ['a command', 'PKSIGN\n'],
    ['another end', 'END now\n'],
    ['an end in small letters', 'end\n'],
    ['data behind a tab', 'D\tab\n'],
    ['a NUL', 'END\0\n'],
  ])('ends a session whose client answers an inquiry with %s', (_name, line) => {
    // The data of a decryption is looked at as a whole, too; that of a hash only line by line.
    for (const command of ['PKDECRYPT', 'SETHASH --inquire']) {
      for (const size of [1, 7, 4_096]) {
        const { sent, broken, operations, client, agent } = gate();
        client(`${command}\n`);
        agent('INQUIRE DATA\n');
        const text = `D good\n${line}END\nPKSIGN\n`;
        for (let at = 0; at < text.length; at += size) client(text.slice(at, at + size));
        expect(sent.agent.replace('D good\n', '')).toBe(`${command}\nCAN\n`);
        expect(sent.client).toMatch(/INQUIRE DATA\nERR 67109140 IPC syntax error <GPG Agent> - [^\n]*\n$/);
        expect(broken).toEqual(['BAD_INQUIRY_DATA']);
        expect(words(operations)).toEqual([`${command.split(' ')[0]} refused`]);
      }
    }
  });

  it.each([
    ['before any command', '', 'S LEAK\n'],
    ['behind an answer', 'NOP\n', 'OK\nD leak\nOK\n'],
    ['behind an answer, with the next command sent early', 'NOP\nNOP\n', 'OK\nD leak\nOK\n'],
    ['behind an inquiry', 'PKDECRYPT\n', 'INQUIRE CIPHERTEXT\nD leak\n'],
    ['behind an inquiry, with its data sent early', 'PKDECRYPT\nD x\nEND\n', 'INQUIRE C\nD leak\nOK\n'],
  ])('ends a session whose agent speaks out of turn: %s', (_name, asked, said) => {
    const { sent, broken, client, agent } = gate();
    if (asked) client(asked);
    agent(said);
    client('RESET\n');
    expect(broken).toEqual(['AGENT_OUT_OF_TURN']);
    expect(sent.client).not.toMatch(/leak/i);
    expect(sent.agent).not.toContain('RESET');
  });

  it('ends it while the client owes the data of an inquiry, whenever the bytes come', () => {
    const { sent, broken, client, agent } = gate();
    client('PKDECRYPT\n');
    agent('INQUIRE CIPHERTEXT\n');
    client(`D ${CIPHERTEXT}\n`);
    agent('D leak\n');
    client('END\n');
    expect(broken).toEqual(['AGENT_OUT_OF_TURN']);
    expect(sent.client).not.toContain('leak');
    expect(sent.agent).toBe('PKDECRYPT\n');
  });

  it('ends it while a command is held back, too', async () => {
    const { sent, broken, client, agent } = gate({ admit: () => new Promise(() => {}) });
    client('PKSIGN\n');
    agent('D leak\n');
    expect(broken).toEqual(['AGENT_OUT_OF_TURN']);
    expect(sent.client).not.toContain('leak');
  });

  it('keeps the end of the data back until the rules are done, or ends the session with their answer', async () => {
    const refusal = Buffer.from('ERR 67109115 Forbidden <GPG Agent>\n');
    for (const decided of [undefined, refusal]) {
      let decide = (_answer: Buffer | undefined) => {};
      const resumes = () =>
        new Promise<Buffer | undefined>((resolve) => {
          decide = resolve;
        });
      const { sent, broken, operations, client, agent } = gate({ resumes });
      client('PKDECRYPT\n');
      agent('INQUIRE CIPHERTEXT\n');
      client(`D ${CIPHERTEXT}\nEND\nRESET\n`);
      expect(sent.agent).toBe(`PKDECRYPT\nD ${CIPHERTEXT}\n`);
      decide(decided);
      await new Promise((resolve) => setImmediate(resolve));
      if (decided) {
        expect(sent.agent).toBe(`PKDECRYPT\nD ${CIPHERTEXT}\nCAN\n`);
        expect(sent.client).toMatch(/INQUIRE CIPHERTEXT\nERR 67109115 Forbidden <GPG Agent>\n$/);
        expect([broken, words(operations)]).toEqual([['BAD_INQUIRY_DATA'], ['PKDECRYPT refused']]);
        continue;
      }
      agent('D plain\nOK\n');
      agent('OK\n');
      expect(sent.agent).toBe(`PKDECRYPT\nD ${CIPHERTEXT}\nEND\nRESET\n`);
      expect([broken, words(operations)]).toEqual([[], ['PKDECRYPT ok', 'RESET ok']]);
    }
  });

  it('knows both keys of a decryption, until a RESET', () => {
    const { operations, client, agent } = gate();
    const other = 'B'.repeat(40);
    for (const line of [`SETKEY ${GRIP}`, `SETKEY --another ${other}`, 'PKDECRYPT', 'RESET', 'PKDECRYPT']) {
      client(`${line}\n`);
      agent('OK\n');
    }
    expect(operations[2]).toMatchObject({ command: 'PKDECRYPT', key: GRIP, another: other });
    expect(operations[4]).toEqual(expect.not.objectContaining({ key: expect.anything() }));
    expect(operations[4]).toEqual(expect.not.objectContaining({ another: expect.anything() }));
  });

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

  it('gives the agent nothing that the rules allow when its client has left', async () => {
    let admit = (_admission: Admission) => {};
    const held = gate({
      admit: () =>
        new Promise((resolve) => {
          admit = resolve;
        }),
    });
    held.client('PKSIGN\nNOP\n');
    expect(held.made.clientLeft()).toBe(false);
    admit(PASS);
    let resume = (_answer: undefined) => {};
    const resumes = () =>
      new Promise<undefined>((resolve) => {
        resume = resolve;
      });
    const inquired = gate({ resumes });
    inquired.client('PKDECRYPT\n');
    inquired.agent('INQUIRE CIPHERTEXT\n');
    inquired.client(`D ${CIPHERTEXT}\nEND\n`);
    expect(inquired.made.clientLeft()).toBe(false);
    resume(undefined);
    await new Promise((resolve) => setImmediate(resolve));
    expect(held.sent.agent).toBe('');
    expect(inquired.sent.agent).not.toContain('END');
    expect(words(held.operations)).toEqual(['PKSIGN closed']);
    expect(words(inquired.operations)).toEqual(['PKDECRYPT closed']);
  });

  it('sends no line that is too long with others that the agent has not answered', () => {
    const { sent, client, agent } = gate({ overlaps: () => true });
    client(`NOP\nSETKEYDESC ${'x'.repeat(990)}\nSETKEYDESC ${'x'.repeat(991)}\n`);
    expect(sent.agent).toBe(`NOP\nSETKEYDESC ${'x'.repeat(990)}\n`);
    agent('OK\n');
    expect(() => agent('OK\n')).toThrow(/more than 1,000 bytes/);
    expect(sent.agent).toBe(`NOP\nSETKEYDESC ${'x'.repeat(990)}\n`);
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
    const { client, agent } = gate();
    client(`${'X'.repeat(1_001)}\n`);
    agent('OK\n');
    expect(() => client(`${'X'.repeat(1_002)}\n`)).toThrow(/more than 1,000 bytes/);
    expect(() => gate().client('X'.repeat(1_100))).toThrow(/more than 1,000 bytes/);
    const comments = gate();
    comments.client('# a comment\n\n'.repeat(1_000));
    expect(comments.sent.agent).toBe('');
  });

  it('passes the same lines in the same order, cut at any places, and drops comments', () => {
    const conversation = `# hello\nGETINFO pid\n\nSETHASH 8 00\nPKDECRYPT\nD ${CIPHERTEXT.replace('abcd', 'a%0Abc')}\nEND\nRESET\n`;
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
          expect(sent.agent).toBe(conversation.replace('# hello\n', '').replace('\n\n', '\n'));
          expect(sent.client).toBe(`OK hello\n${answers.join('')}`);
          expect(words(operations)).toEqual(['GETINFO ok', 'SETHASH ok', 'PKDECRYPT ok', 'RESET ok']);
        },
      ),
    );
  });
});
