import { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { awaitGreeting } from './greeting.ts';

function silentStream(): Duplex {
  return new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
}

function outcomeOn(stream: Duplex, timeoutMs = 30_000, questions = 0): Promise<string> {
  return new Promise((resolve) => {
    awaitGreeting(
      stream,
      { timeoutMs, questions },
      {
        greeted: (received) => resolve(received.toString('latin1')),
        refused: (error) => resolve(error.code),
        closed: (cause) => resolve(`closed: ${cause?.message ?? 'cleanly'}`),
      },
    );
  });
}

describe('awaitGreeting', () => {
  it.each(['OK Pleased to meet you\n', 'OK\r\n', 'OKAY then\n', '# a comment\n\nOK hi\n'])(
    'takes %j for a greeting, cut anywhere',
    async (greeting) => {
      for (let at = 0; at < greeting.length; at++) {
        const stream = silentStream();
        const outcome = outcomeOn(stream);
        stream.push(greeting.slice(0, at), 'latin1');
        stream.push(greeting.slice(at), 'latin1');
        expect(await outcome).toBe(greeting);
      }
    },
  );

  it('hands over what came with the greeting', async () => {
    const stream = silentStream();
    stream.push('OK hello\nS more');
    expect(await outcomeOn(stream)).toBe('OK hello\nS more');
  });

  it.each([
    ['OK hello\n', ''],
    ['OK hello\n', 'OK\nD 2.4\nOK\n'],
    ['# a comment\n\nOK hello\n', 'OK\nD 2.4\nOK\n'],
  ])('knows where %j ends with %j behind it, cut anywhere', async (greeting, behind) => {
    const said = greeting + behind;
    for (let at = 0; at < said.length; at++) {
      const stream = silentStream();
      const greeted = new Promise<number>((resolve, reject) => {
        const outcome = { greeted: (_received: Buffer, length: number) => resolve(length) };
        awaitGreeting(stream, {}, { ...outcome, refused: reject, closed: reject });
      });
      stream.push(said.slice(0, at));
      stream.push(said.slice(at));
      expect(await greeted).toBe(greeting.length);
    }
  });

  it.each(['OK hello\n', '# a comment\n\nOK hello\n'])(
    'waits for the answers to questions that were sent before %j, cut anywhere',
    async (greeting) => {
      const answers = ['OK\n', 'D 2.4\nOK\n', 'ERR 67108881 No secret key <GPG Agent>\n'];
      const said = greeting + answers.join('');
      for (let at = 0; at < said.length; at++) {
        const stream = silentStream();
        const answered = new Promise<string[]>((resolve, reject) => {
          awaitGreeting(
            stream,
            { questions: answers.length },
            {
              greeted: (_received, length, blocks) =>
                resolve([said.slice(0, length), ...blocks.map(({ bytes }) => bytes.toString())]),
              refused: reject,
              closed: reject,
            },
          );
        });
        stream.push(said.slice(0, at));
        stream.push(said.slice(at));
        expect(await answered).toEqual([greeting, ...answers]);
      }
    },
  );

  it.each([
    ['asks for data', 'OK hello\nINQUIRE PASSPHRASE\n', 'BAD_RESPONSE'],
    ['says more than it was asked', 'OK hello\nOK\nOK\n', 'AGENT_OUT_OF_TURN'],
    ['says nothing more', 'OK hello\n', 'AGENT_RESPONSE_TIMEOUT'],
  ])('refuses an agent that %s after it was asked', async (_name, said, code) => {
    const stream = silentStream();
    const outcome = outcomeOn(stream, code === 'AGENT_RESPONSE_TIMEOUT' ? 50 : undefined, 1);
    stream.push(said);
    expect(await outcome).toBe(code);
  });

  it.each([
    ['an error', 'ERR 67109115 Forbidden <GPG Agent>\n', 'BAD_GREETING'],
    ['something else', 'HTTP/1.1 400 Bad Request\n', 'BAD_GREETING'],
    ['a line without end', 'O'.repeat(2_000), 'LINE_TOO_LONG'],
    ['a greeting without end', `OK ${'x'.repeat(2_000)}`, 'LINE_TOO_LONG'],
    ['a greeting of any length', `OK ${'x'.repeat(2_000)}\n`, 'LINE_TOO_LONG'],
    ['comments without end', '#\n'.repeat(40_000), 'BLOCK_TOO_LARGE'],
  ])('refuses %s', async (_name, said, code) => {
    const stream = silentStream();
    const outcome = outcomeOn(stream);
    stream.push(said);
    expect(await outcome).toBe(code);
  });

  it('does not wait longer than it is told to', async () => {
    expect(await outcomeOn(silentStream(), 10)).toBe('AGENT_GREETING_TIMEOUT');
  });

  it('tells of a stream that ends, breaks, or is gone already', async () => {
    const ending = silentStream();
    ending.push(null);
    expect(await outcomeOn(ending)).toBe('closed: cleanly');
    const breaking = silentStream();
    const outcome = outcomeOn(breaking);
    breaking.destroy(new Error('broke'));
    expect(await outcome).toBe('closed: broke');
    expect(await outcomeOn(breaking)).toBe('closed: broke');
  });

  it('leaves no listener behind, whatever came of it', async () => {
    for (const said of ['OK\n', 'ERR 1\n', undefined]) {
      const stream = silentStream().on('error', () => {});
      const before = stream.eventNames().map((name) => [name, stream.listenerCount(name)]);
      const outcome = outcomeOn(stream, 10);
      if (said) stream.push(said);
      await outcome;
      expect(stream.eventNames().map((name) => [name, stream.listenerCount(name)])).toEqual(before);
    }
  });
});
