import { type AnswerTable, onceFields, tableFields } from '@gpg-bridge/core/assuan/answer-table';
import { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import { encodeFields } from '@gpg-bridge/core/mux/fields';
import type { RunningServer, TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { CLOSE, DATA, EOF, OPEN, TABLE, TOLD, TURN, uint32 } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, Target } from './target.ts';

const GREETING = 'OK hello\n';
const SIMPLE: AnswerTable = {
  greeting: GREETING,
  entries: [
    { id: 7, pattern: '^RESET$', answer: 'OK\n' },
    { id: 8, pattern: '^GETINFO version$', answer: 'D 1\nOK\n' },
    { id: 9, pattern: '^GETINFO restricted$', answer: 'OK\n', notFirst: true },
    { id: 0xffff_fffe, pattern: '^OPTION [a-z]+=[!-\xff][ -\xff]*$', answer: 'ERR 1 no\n' },
    { id: 11, pattern: '^LONG$', answer: `D ${'x'.repeat(900)}\nOK\n` },
  ],
};

/** What the host has told the server of a session, and the session's client. */
interface Session {
  server: RunningServer;
  client: Client;
  id: number;
}

/** Answering ahead, as docs/protocol.md has it. */
export function aheadCases(runtime: TestedRuntime): void {
  async function serve(table: AnswerTable = SIMPLE): Promise<{ server: RunningServer; path: string }> {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true });
    server.send(TABLE, 0, encodeFields(tableFields(table)));
    await server.ready();
    return { server, path: await target.gpgSocket() };
  }

  async function greeted({ server, path }: { server: RunningServer; path: string }): Promise<Session> {
    const client = await Client.connect(path);
    const { stream, payload } = await server.next(OPEN);
    expect(payload.toString()).toBe('gpg-agent greeted');
    expect((await client.take(GREETING.length)).toString()).toBe(GREETING);
    return { server, client, id: stream };
  }

  const told = async ({ server, id }: Session): Promise<number[]> => {
    const { payload } = await server.next(TOLD, id);
    return Array.from({ length: payload.length / 4 }, (_, index) => payload.readUInt32BE(4 * index));
  };
  const expectText = async (client: Client, text: string) =>
    expect((await client.take(text.length)).toString('latin1')).toBe(text);

  it('answers what the table has, and sends it with the first line that waits', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    client.write('RESET\n');
    await expectText(client, 'OK\n');
    client.write('GETINFO version\nOPTION tty=/dev/x\n');
    await expectText(client, 'D 1\nOK\nERR 1 no\n');
    client.write('GETINFO restricted\n');
    await expectText(client, 'OK\n');
    expect(server.waiting).toEqual([]);
    client.write('NOP\n');
    const all = 'RESET\nGETINFO version\nOPTION tty=/dev/x\nGETINFO restricted\nNOP\n';
    expect((await server.data(id, all.length)).toString()).toBe(all);
    expect(await told(session)).toEqual([7, 8, 0xffff_fffe, 9]);
  });

  it('reads lines from pieces cut anywhere', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    for (const letter of 'RESET\n') {
      client.write(letter);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await expectText(client, 'OK\n');
    client.write('OPTION a=\xe4 b\nRE');
    await expectText(client, 'ERR 1 no\n');
    client.write('SET \n');
    const bytes = await server.data(id, 0x1b);
    expect(bytes.toString()).toBe('RESET\nOPTION a=\xe4 b\nRESET \n');
    expect(await told(session)).toHaveLength(2);
  });

  it('passes everything on until the host says that all of it is answered', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    client.write('NOP\n');
    await server.data(id, 4);
    client.write('RESET\n');
    expect((await server.data(id, 6)).toString()).toBe('RESET\n');
    server.send(DATA, id, 'OK\n');
    server.send(TURN, id, uint32(4));
    await expectText(client, 'OK\n');
    client.write('RESET\n');
    expect((await server.data(id, 6)).toString()).toBe('RESET\n');
    server.send(DATA, id, 'OK\nOK\n');
    server.send(TURN, id, uint32(16));
    await expectText(client, 'OK\nOK\n');
    client.write('RESET\n');
    await expectText(client, 'OK\n');
    client.write('NOP\n');
    expect((await server.data(id, 10)).toString()).toBe('RESET\nNOP\n');
    expect(await told(session)).toEqual([7]);
  });

  it('answers each line that was sent along once', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    client.write('NOP\n');
    await server.data(id, 4);
    server.send(DATA, id, 'OK\n');
    const along = [
      { id: 21, line: 'HAVEKEY a', answer: 'OK\n' },
      { id: 22, line: 'HAVEKEY b', answer: 'D \xff\nOK\n' },
    ];
    server.send(TURN, id, Buffer.concat([uint32(4), encodeFields(onceFields(along))]));
    await expectText(client, 'OK\n');
    client.write('HAVEKEY b\n');
    await expectText(client, 'D \xff\nOK\n');
    client.write('HAVEKEY b\n');
    expect((await server.data(id, 20)).toString()).toBe('HAVEKEY b\nHAVEKEY b\n');
    expect(await told(session)).toEqual([22]);
  });

  it('answers with what was sent along before what the table has, also a line that came before', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    client.write('RESET\nOPTION a=b\nNOP\n');
    await server.data(id, 21);
    server.send(DATA, id, 'OK\n');
    const along = ['RESET', 'OPTION a=b'].map((line, at) => ({ id: 41 + at, line, answer: 'ERR 3 new\n' }));
    server.send(TURN, id, Buffer.concat([uint32(21), encodeFields(onceFields(along))]));
    await expectText(client, 'OK\nERR 1 no\nOK\n');
    for (const line of ['RESET\n', 'OPTION a=b\n']) {
      client.write(line);
      await expectText(client, 'ERR 3 new\n');
    }
    client.write('RESET\n');
    await expectText(client, 'OK\n');
    client.write('NOP\n');
    await server.data(id, 27);
    expect(await told(session)).toEqual([7, 0xffff_fffe]);
    expect(await told(session)).toEqual([41, 42, 7]);
  });

  it('lets the first command wait where the table says so', async () => {
    const { server, client, id } = await greeted(await serve());
    client.write('GETINFO restricted\n');
    expect((await server.data(id, 19)).toString()).toBe('GETINFO restricted\n');
    expect(server.waiting).toEqual([]);
  });

  it('answers a line that came before by where it stands now, and by the table of now', async () => {
    const withState = (id: number, answer: string): AnswerTable => ({
      greeting: GREETING,
      entries: [...SIMPLE.entries, { id, pattern: '^STATE [0-9]+$', answer, notFirst: true }],
    });
    const served = await serve(withState(31, 'OK\n'));
    const { server } = served;
    const state = async (line: string, answer: string, ids: number[]) => {
      const session = await greeted(served);
      const { client, id } = session;
      for (const _ of [1, 2]) {
        client.write('RESET\n');
        await expectText(client, 'OK\n');
        client.write(line);
        await expectText(client, answer);
      }
      client.write('NOP\n');
      await server.data(id, 2 * (6 + line.length) + 4);
      expect(await told(session)).toEqual(ids);
    };
    await state('STATE 1\n', 'OK\n', [7, 31, 7, 31]);
    // More than anybody remembers.
    for (let number = 2; number < 80; number++) await state(`STATE ${number}\n`, 'OK\n', [7, 31, 7, 31]);
    await state('STATE 1\n', 'OK\n', [7, 31, 7, 31]);
    const first = await greeted(served);
    first.client.write('STATE 1\n');
    expect((await server.data(first.id, 8)).toString()).toBe('STATE 1\n');
    server.send(TABLE, 0, encodeFields(tableFields(withState(32, 'ERR 2 no\n'))));
    await state('STATE 1\n', 'ERR 2 no\n', [7, 32, 7, 32]);
  });

  it('sends what it has answered before the end of a client that says no more', async () => {
    const session = await greeted(await serve());
    const { server, client, id } = session;
    client.write('RESET\n');
    await expectText(client, 'OK\n');
    client.socket.end('RESET\nhalf a li');
    expect((await server.data(id, 21)).toString()).toBe('RESET\nRESET\nhalf a li');
    expect(await told(session)).toEqual([7, 7]);
    await server.next(EOF, id);
    server.send(CLOSE, id);
    await expectText(client, 'OK\n');
    await client.end();
  });

  it('does not wait for the end of a line that is too long', async () => {
    const { server, client, id } = await greeted(await serve());
    const line = `OPTION a=${'b'.repeat(2_000)}`;
    client.write(line);
    expect((await server.data(id, line.length)).toString()).toBe(line);
    client.write('\nRESET\n');
    expect((await server.data(id, 7)).toString()).toBe('\nRESET\n');
  });

  it('lets a line wait that is longer than Assuan allows, though the table has it', async () => {
    const { server, client, id } = await greeted(await serve());
    const line = `OPTION a=${'b'.repeat(992)}\n`;
    client.write(line);
    expect((await server.data(id, line.length)).toString()).toBe(line);
  });

  it('keeps some kilobytes at most, also for a client that takes no answers', async () => {
    const { server, path } = await serve();
    const client = await Client.connect(path, { reads: false });
    const { stream } = await server.next(OPEN);
    let sent = 0;
    // The client's socket takes some hundred kilobytes. What it does not take is not answered ahead any more.
    for (let told = true; told; ) {
      client.write('LONG\n'.repeat(2_000));
      for (const end = sent + 10_000; sent < end; ) {
        const { payload } = await server.next(DATA, stream);
        sent += payload.length;
        const note = server.waiting.findIndex(({ type }) => type === TOLD);
        told = note >= 0;
        if (note >= 0) expect((await server.next(TOLD, stream)).payload.length).toBeLessThan(4 * 2_000);
        server.send(TURN, stream, uint32(sent));
      }
    }
    expect(await server.residentKiB()).toBeLessThan(200_000);
  });

  it('answers nothing for a client that came before the table, or behind an empty one', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true });
    await server.ready();
    const path = await target.gpgSocket();
    const early = await Client.connect(path);
    expect((await server.next(OPEN)).payload.toString()).toBe('gpg-agent');
    server.send(TABLE, 0, encodeFields(tableFields(SIMPLE)));
    await server.call(['lstat', '/']);
    const session = await greeted({ server, path });
    early.write('RESET\n');
    expect((await server.data(1, 6)).toString()).toBe('RESET\n');
    server.send(TABLE, 0);
    await server.call(['lstat', '/']); // it has been read once this is answered
    session.client.write('RESET\n');
    expect((await server.data(session.id, 6)).toString()).toBe('RESET\n');
    await Client.connect(path);
    expect((await server.next(OPEN)).payload.toString()).toBe('gpg-agent');
  });

  it('understands every pattern that the host makes as the host does', async () => {
    const answers = new AnswersAhead({ onChange: () => {} });
    answers.connected({ version: 'D 2.2.40\nOK\n', socket: 's' }, GREETING);
    const forbidden = Buffer.from('ERR 67109115 Forbidden <GPG Agent>\n');
    const learned = [
      'OPTION ttyname=x',
      'OPTION a-b',
      `KEYINFO ${'0'.repeat(40)}`,
      'SCD (a|b)*c+?[d]{2}^$\\.',
      'X {}#@%~"\'/$&',
    ];
    answers.learnAll(learned.map((line) => [line, forbidden]));
    const { table } = answers;
    const hex = '0123456789abcdefABCDEF'.repeat(6);
    const lines = [
      ...learned,
      ...[
        'RESET',
        'RESET ',
        ' RESET',
        'reset',
        'RESETX',
        'RESET\r',
        'GETINFO version',
        'GETINFO versio',
        'GETINFO',
      ],
      ...['SIGKEY', 'SETKEY'].flatMap((word) => [39, 40, 41].map((size) => `${word} ${hex.slice(0, size)}`)),
      `SIGKEY ${'g'.repeat(40)}`,
      ...[2, 8, 9, 10, 11, 1].flatMap((algo) =>
        [40, 56, 63, 64, 65, 96, 128].map((size) => `SETHASH ${algo} ${hex.slice(0, size)}`),
      ),
      ...['SETHASH --inquire', 'SETHASH --hash=sha256 00', 'SETHASH  8 00'],
      ...[
        'SETKEYDESC',
        'SETKEYDESC ',
        'SETKEYDESC a+b',
        'SETKEYDESC \xe4\xff\x80',
        'SETKEYDESC a\tb',
        'SETKEYDESC a b',
      ],
      ...[
        'OPTION ttyname=',
        'OPTION ttyname= x',
        'OPTION ttyname=x y',
        'OPTION ttyname=\xff',
        'OPTION ttyname',
      ],
      ...[
        'OPTION ttyname=a\x01',
        'OPTION ttynam=e',
        'OPTION a-b=c',
        'OPTION a-b',
        'SCD aac?d^$.',
        'SCD',
        'X {}',
      ],
      ...['a\0b', 'RESET\0', 'SETKEYDESC a\0', 'SETKEYDESC \x7f', 'OPTION ttyname=\x80\x85\xa0'],
    ];
    const session = await greeted(await serve(table));
    const { server, client, id } = session;
    let sent = 0;
    const found: string[] = [];
    for (const line of lines) {
      client.write(Buffer.from(`${line}\n`, 'latin1'));
      // Whatever the line before was, this one waits.
      client.write('NOP\n');
      const bytes = await server.data(id, line.length + 5);
      sent += bytes.length;
      const note = server.waiting.find(({ type }) => type === TOLD);
      if (note) await server.next(TOLD, id);
      found.push(`${line}: ${note ? note.payload.readUInt32BE(0) : 'waits'}`);
      const entry = table.entries.find((each) => each.id === note?.payload.readUInt32BE(0));
      server.send(DATA, id, entry ? 'OK\n' : 'OK\nOK\n');
      server.send(TURN, id, uint32(sent));
      await expectText(client, `${entry?.answer ?? 'OK\n'}OK\n`);
    }
    const expected = lines.map((line) => {
      const entry = table.entries.find(({ pattern }) => new RegExp(pattern).test(line));
      return `${line}: ${entry?.id ?? 'waits'}`;
    });
    expect(found).toEqual(expected);
    expect(found.filter((each) => !each.endsWith('waits')).length).toBeGreaterThan(15);
  });
}
