import { once } from 'node:events';
import { type ClientPair, clientPair } from '@gpg-bridge/test-support/client-pair';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Block } from '../assuan/block-scanner.ts';
import { BridgeError } from '../errors.ts';
import type { RequestState } from '../machine/request-table.ts';
import type { AgentChannel, ChannelAnswer, OpenedChannel } from './agent-channel.ts';
import { ClientSession, type ClientSessionOptions } from './client-session.ts';

const GREETING = 'OK Pleased to meet you\n';

/** A channel whose answers the test gives, in its own time. */
class HeldChannel implements AgentChannel {
  readonly asked: string[] = [];
  closed = 0;
  #waiting: ((asked: string) => void) | undefined;
  #answers: { resolve(answer: ChannelAnswer): void; reject(error: unknown): void }[] = [];

  send(block: Block): Promise<ChannelAnswer> {
    this.asked.push(block.bytes.toString('latin1'));
    return new Promise((resolve, reject) => {
      this.#answers.push({ resolve, reject });
      this.#waiting?.(this.asked.at(-1)!);
    });
  }

  close(): void {
    this.closed += 1;
  }

  /** The next block that is sent here. */
  async next(): Promise<string> {
    if (this.#answers.length > 0) return this.asked.at(-1)!;
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  answer(text: string): void {
    this.#answers.shift()?.resolve({ response: text });
  }

  fail(error: unknown): void {
    this.#answers.shift()?.reject(error);
  }
}

/** A channel that answers at once. */
function answering(answer: (block: string) => string): AgentChannel & { asked: string[]; closed: number } {
  const asked: string[] = [];
  return {
    asked,
    closed: 0,
    async send(block) {
      asked.push(block.bytes.toString('latin1'));
      return { response: answer(asked.at(-1)!) };
    },
    close() {
      this.closed += 1;
    },
  };
}

let book: LogBook;
beforeEach(() => {
  book = new LogBook();
});

interface Setting extends ClientPair {
  session: ClientSession;
  ended: Promise<void>;
  endings(): number;
}

async function setUp(
  openChannel: () => Promise<OpenedChannel>,
  options: Partial<ClientSessionOptions> = {},
): Promise<Setting> {
  const pair = await clientPair();
  let endings = 0;
  let tell = () => {};
  const ended = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const session = new ClientSession({
    socket: pair.socket,
    openChannel,
    maxBlockBytes: 64 * 1024 * 1024,
    log: book.log,
    onEnded: () => {
      endings += 1;
      tell();
    },
    ...options,
  });
  session.start();
  return { ...pair, session, ended, endings: () => endings };
}

async function setUpWith<C extends AgentChannel>(channel: C, options: Partial<ClientSessionOptions> = {}) {
  const setting = await setUp(async () => ({ channel, greeting: GREETING }), options);
  return { ...setting, channel };
}

/** Brings a new session to a state, with the client having done what leads there. */
async function inState(state: RequestState) {
  const channel = new HeldChannel();
  let open = (_: OpenedChannel) => {};
  const setting = await setUp(
    () =>
      new Promise((resolve) => {
        open = resolve;
      }),
  );
  const { client, session } = setting;
  const greet = () => open({ channel, greeting: GREETING });
  const reached = { ...setting, channel, greet };
  if (state === 'CONNECTING_TO_AGENT') return reached;
  greet();
  await client.reads(GREETING);
  if (state === 'READY') {
    await until(session, 'READY');
    return reached;
  }
  if (state === 'BUFFERING_COMMAND') {
    client.write('PKSI');
    await until(session, 'BUFFERING_COMMAND');
    return reached;
  }
  client.write('PKDECRYPT\n');
  await channel.next();
  if (state === 'WAITING_FOR_AGENT') return reached;
  if (state === 'BUFFERING_INQUIRE') {
    channel.answer('INQUIRE CIPHERTEXT\n');
    await client.reads('CIPHERTEXT\n');
    await until(session, 'BUFFERING_INQUIRE');
    return reached;
  }
  client.socket.pause();
  channel.answer(HUGE);
  await until(session, 'SENDING_TO_CLIENT');
  return reached;
}

/** More than the kernel holds for a client that doesn't read. */
const HUGE = `${'D 0123456789abcd\n'.repeat(500_000)}OK\n`;

async function until(session: ClientSession, state: RequestState): Promise<void> {
  while (session.machine.state !== state) await new Promise((resolve) => setImmediate(resolve));
}

// SENDING_TO_AGENT is left in the same turn of the event loop in which it is entered.
const STATES: RequestState[] = [
  'CONNECTING_TO_AGENT',
  'READY',
  'BUFFERING_COMMAND',
  'BUFFERING_INQUIRE',
  'WAITING_FOR_AGENT',
  'SENDING_TO_CLIENT',
];

describe('a client’s socket that closes', () => {
  const ways = [
    { how: 'the client goes', close: ({ client }: Setting) => client.socket.destroy() },
    { how: 'the client goes with bytes unread', close: goUnread },
    { how: 'closed without an error', close: ({ socket }: Setting) => socket.destroy() },
    { how: 'closed with an error', close: ({ socket }: Setting) => socket.destroy(new Error('broke')) },
  ];
  const cases = STATES.flatMap((state) => ways.map((way) => ({ state, ...way })));

  it.each(cases)(
    'in $state, $how: the session and its channel end at once, and once',
    async ({ state, close }) => {
      const reached = await inState(state);
      await close(reached);
      await reached.ended;
      reached.greet();
      reached.channel.answer('OK too late\n');
      reached.channel.fail(new Error('too late'));
      reached.session.stop();
      await new Promise((resolve) => setImmediate(resolve));
      expect(reached.session.machine.state).toBe('DISCONNECTED');
      expect(reached.endings()).toBe(1);
      expect(reached.channel.closed).toBe(1);
      expect(reached.socket.destroyed).toBe(true);
    },
  );

  /** On a Unix socket a process that leaves unread bytes behind resets the connection. */
  async function goUnread({ client, socket }: Setting): Promise<void> {
    client.socket.pause();
    socket.write('# unread\n');
    await new Promise((resolve) => setImmediate(resolve));
    client.socket.destroy();
  }
});

describe('a client that ends its side and goes on reading', () => {
  it('gets all its answers', async () => {
    const { client, channel, ended } = await setUpWith(
      answering((block) => (block === 'BYE\n' ? 'OK bye\n' : 'D 2\nOK\n')),
    );
    client.socket.end('GETINFO version\nGETINFO pid\nBYE\n');
    expect(await client.readsAll()).toBe(`${GREETING}D 2\nOK\nD 2\nOK\nOK bye\n`);
    await ended;
    expect(channel.asked).toEqual(['GETINFO version\n', 'GETINFO pid\n', 'BYE\n']);
  });

  it('gets them without a BYE too, then the session ends', async () => {
    const { client, ended } = await setUpWith(answering(() => 'OK\n'));
    client.socket.end('NOP\n');
    expect(await client.readsAll()).toBe(`${GREETING}OK\n`);
    await ended;
  });

  it('gets them however long the greeting and the response take', async () => {
    const { client, channel, greet, ended, socket } = await inState('CONNECTING_TO_AGENT');
    client.socket.end('PKSIGN\n');
    await once(socket, 'end');
    greet();
    expect(await channel.next()).toBe('PKSIGN\n');
    channel.answer('OK signed\n');
    expect(await client.readsAll()).toBe(`${GREETING}OK signed\n`);
    await ended;
  });

  it.each(['PKSI', '# only a comment\n'])('in the middle of a block (%j) ends the session', async (rest) => {
    const { client, channel, ended } = await setUpWith(answering(() => 'OK\n'));
    client.socket.end(`NOP\n${rest}`);
    expect(await client.readsAll()).toBe(`${GREETING}OK\n`);
    await ended;
    expect(channel.asked).toEqual(['NOP\n']);
  });

  it('in an inquiry ends the session', async () => {
    const { client, ended } = await inState('BUFFERING_INQUIRE');
    client.socket.end('D half');
    await client.readsAll();
    await ended;
    expect(book.entries).toEqual([]);
  });
});

describe('early data', () => {
  const script = [
    'OPTION x\n',
    '# note\n\nPKDECRYPT\n',
    'D OK%0A\x00\xff\nD END\n# c\nEND\n',
    'CAN\n',
    'NOP\n',
    'BYE\n',
  ];
  const answers: Record<string, string> = {
    [script[1]!]: 'S INQUIRE_MAXLEN 4096\nINQUIRE CIPHERTEXT\n',
    [script[2]!]: 'INQUIRE MORE\n',
    [script[3]!]: 'ERR 67108963 Operation cancelled\n',
    [script[5]!]: 'OK closing connection\n',
  };
  const reply = (block: string) => answers[block] ?? 'OK\n';
  const said = script.join('');
  const heard = GREETING + script.map(reply).join('');

  it('is kept in order and used when its turn comes, cut at every byte', async () => {
    for (let at = 0; at <= said.length; at++) {
      const { client, socket, channel, ended } = await setUpWith(answering(reply));
      client.write(said.slice(0, at));
      if (at > 0) while (socket.bytesRead < at) await once(socket, 'data');
      client.write(said.slice(at));
      expect(await client.readsAll()).toBe(heard);
      expect(channel.asked).toEqual(script);
      await ended;
    }
  });

  it('is kept in order whatever the pieces', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(said.length), { maxLength: 12 }), async (places) => {
        const { client, channel } = await setUpWith(answering(reply));
        const cuts = [0, ...places.sort((a, b) => a - b), said.length];
        for (let i = 1; i < cuts.length; i++) {
          client.write(said.slice(cuts[i - 1], cuts[i]));
          await new Promise((resolve) => setImmediate(resolve));
        }
        expect(await client.readsAll()).toBe(heard);
        expect(channel.asked).toEqual(script);
      }),
      { numRuns: 20 },
    );
  });

  it('is not sent before the greeting, nor before the response to what came first', async () => {
    const { client, channel, greet, socket } = await inState('CONNECTING_TO_AGENT');
    client.write('PKDECRYPT\nD abc\nEND\nBYE\n');
    while (socket.bytesRead < 24) await once(socket, 'data');
    expect(channel.asked).toEqual([]);
    greet();
    expect(await channel.next()).toBe('PKDECRYPT\n');
    expect(channel.asked.length).toBe(1);
    channel.answer('INQUIRE CIPHERTEXT\n');
    await client.reads('INQUIRE');
    expect(await channel.next()).toBe('D abc\nEND\n');
    channel.answer('OK\n');
    expect(await channel.next()).toBe('BYE\n');
    channel.answer('OK closing connection\n');
    expect(await client.readsAll()).toBe(`${GREETING}INQUIRE CIPHERTEXT\nOK\nOK closing connection\n`);
  });

  it('in any amount is made to wait: little is held, nothing is lost', async () => {
    const { client, channel, socket } = await inState('WAITING_FOR_AGENT');
    const commands = 'NOP\n'.repeat(1024 * 1024);
    client.write(commands);
    await stalled(socket);
    expect(socket.bytesRead).toBeLessThan(256 * 1024);
    // Used up one small command at a time, it does not grow.
    for (let turn = 0; turn < 500; turn++) {
      channel.answer('OK\n');
      expect(await channel.next()).toBe('NOP\n');
    }
    expect(socket.bytesRead).toBeLessThan(256 * 1024);
  });

  it('that floods is answered to its end', async () => {
    const { client, channel } = await setUpWith(answering(() => 'OK\n'));
    const count = 50_000;
    client.socket.end(`${'NOP\n'.repeat(count)}BYE\n`);
    const text = await client.readsAll();
    expect(text.length).toBe(GREETING.length + 3 * (count + 1));
    expect(channel.asked.length).toBe(count + 1);
  });

  it('may be the whole of a large inquiry block', async () => {
    const block = `${'D 0123456789\n'.repeat(100_000)}END\n`;
    const { client, channel } = await setUpWith(
      answering((asked) => (asked === 'PKDECRYPT\n' ? 'INQUIRE C\n' : 'OK\n')),
    );
    client.socket.end(`PKDECRYPT\n${block}BYE\n`);
    expect(await client.readsAll()).toBe(`${GREETING}INQUIRE C\nOK\nOK\n`);
    expect(channel.asked[1] === block).toBe(true);
    expect(channel.asked.length).toBe(3);
  });

  /** Resolves when the socket's reader has been stopped and nothing more comes in. */
  async function stalled(socket: Setting['socket']): Promise<void> {
    for (let before = -1; !socket.isPaused() || before !== socket.bytesRead; ) {
      before = socket.bytesRead;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
});

describe('BYE', () => {
  it.each(['BYE\n', 'bye\r\n', 'BYE now\n'])(
    '(%j) is answered, then we close as gpg-agent does',
    async (bye) => {
      const { client, channel, ended, session } = await setUpWith(answering(() => 'OK closing connection\n'));
      client.write(`${bye}NOP\n`);
      expect(await client.readsAll()).toBe(`${GREETING}OK closing connection\n`);
      await ended;
      expect(channel.asked).toEqual([bye]);
      expect(session.machine.state).toBe('DISCONNECTED');
      expect(book.entries).toEqual([]);
    },
  );

  it('that the agent refuses, as in an inquiry, ends nothing', async () => {
    const { client, channel } = await inState('BUFFERING_INQUIRE');
    client.write('BYE\n');
    await channel.next();
    channel.answer('ERR 67109139 Unknown IPC command\n');
    await client.reads('ERR');
    client.write('NOP\n');
    expect(await channel.next()).toBe('NOP\n');
  });
});

describe('a host that can’t be had', () => {
  const reason = new BridgeError('CARRIER_FAILED', { what: 'no', why: 'carrier', fix: 'Mend it.' });

  it('is stood in for: an OK greeting, then ERR with the reason to every command, OK to BYE', async () => {
    const { client, ended } = await setUp(() => Promise.reject(reason));
    client.write('RESET\n# c\nBYE\n');
    expect(await client.readsAll()).toMatch(
      /^OK [^\n]*\nERR 67108941 No agent running <GPG Agent> - no: carrier\. Mend it\.\nOK closing connection\n$/,
    );
    await ended;
  });

  it.each([
    { code: 'CONSENT_DENIED', says: 'ERR 67108963 Operation cancelled <GPG Agent> - ' },
    { code: 'SESSION_LIMIT', says: 'ERR 67108941 No agent running <GPG Agent> - ' },
  ] as const)('for $code is said in gpg’s words', async ({ code, says }) => {
    const { client } = await setUp(() =>
      Promise.reject(new BridgeError(code, { what: 'w', why: 'y', fix: 'F.' })),
    );
    client.write('RESET\n');
    await client.reads(says);
  });

  it('takes any error of a carrier for a reason', async () => {
    const { client } = await setUp(() => Promise.reject('just a\nstring'));
    client.write('RESET\n');
    await client.reads('just a string.');
  });

  it('later on gets its client an ERR line before the socket closes', async () => {
    const { client, channel, ended } = await inState('WAITING_FOR_AGENT');
    channel.fail(reason);
    expect(await client.readsAll()).toBe(
      `${GREETING}ERR 67108941 No agent running <GPG Agent> - no: carrier. Mend it.\n`,
    );
    await ended;
    expect(channel.closed).toBe(1);
  });

  it.each(['', 'OK', 'D half\n', 'garbage\n'])('and answers %j is broken off', async (answer) => {
    const { client, channel, ended } = await inState('WAITING_FOR_AGENT');
    channel.answer(answer);
    expect(await client.readsAll()).toContain('ERR 67108941 No agent running');
    await ended;
  });
});

describe('limits', () => {
  it.each([
    { name: 'a command line', state: 'READY', sent: `${'x'.repeat(1002)}\n` },
    { name: 'a command without an end', state: 'READY', sent: 'x'.repeat(1100) },
  ] as const)('$name that is too long gets an ERR, and the session ends', async ({ state, sent }) => {
    const { client, ended, channel } = await inState(state);
    client.forget();
    client.write(sent);
    expect(await client.readsAll()).toMatch(
      /^ERR 67109127 Line passed to IPC too long <GPG Agent> - [^\n]*\n$/,
    );
    await ended;
    expect(channel.closed).toBe(1);
  });

  it('a data line that is too long gets one, and nothing of it goes to the agent', async () => {
    const channel = answering(() => 'INQUIRE C\n');
    const { client, ended } = await setUpWith(channel);
    client.write('PKDECRYPT\n');
    await client.reads('INQUIRE C\n');
    client.forget();
    client.write(`D ${'x'.repeat(1000)}rest\nPKSIGN\n`);
    expect(await client.readsAll()).toMatch(/^ERR [^\n]*\n$/);
    await ended;
    expect(channel.asked).toEqual(['PKDECRYPT\n']);
  });

  it('a block that is too large gets one too', async () => {
    const { client, ended } = await setUpWith(
      answering(() => 'INQUIRE C\n'),
      { maxBlockBytes: 1000 },
    );
    client.write('PKDECRYPT\n');
    await client.reads('INQUIRE C\n');
    client.forget();
    client.write('D 0123456789\n'.repeat(100));
    expect(await client.readsAll()).toMatch(
      /^ERR 67109137 Too much data for IPC layer <GPG Agent> - [^\n]*\n$/,
    );
    await ended;
  });
});

describe('a client that does not read', () => {
  it('is waited for, and gets everything', async () => {
    const { client, session } = await inState('SENDING_TO_CLIENT');
    client.socket.resume();
    await until(session, 'READY');
    expect((await client.reads(HUGE)).length).toBe(GREETING.length + HUGE.length);
  });

  it('is not waited for by stop()', async () => {
    const { session, socket, ended } = await inState('SENDING_TO_CLIENT');
    session.stop();
    await ended;
    expect(socket.destroyed).toBe(true);
  });

  it('is given a moment for an error’s line, and no longer', async () => {
    // A pipelining client that reads nothing: after so many answers the kernel takes no more.
    const piece = `D ${'x'.repeat(990)}\n`.repeat(16);
    const full = await fill(Number.POSITIVE_INFINITY);
    const { session, socket, ended } = await fill(full.asked);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      session.machine.once('ERROR_OCCURRED', () => expect(socket.writableLength).toBeGreaterThan(0));
      full.session.stop();
      await ended;
      expect(socket.destroyed).toBe(false);
      vi.advanceTimersByTime(1_000);
      expect(socket.destroyed).toBe(true);
    } finally {
      vi.useRealTimers();
    }

    async function fill(failAt: number) {
      let asked = 0;
      const setting = await setUpWith<AgentChannel>({
        send: async () => {
          asked += 1;
          if (asked < failAt) return { response: `${piece}OK\n` };
          // The timer starts when the session ends, so the clock has to be the test's by then.
          while (!vi.isFakeTimers()) await new Promise((resolve) => setImmediate(resolve));
          throw new Error('the carrier broke');
        },
        close: () => {},
      });
      setting.client.socket.pause();
      setting.client.write('NOP\n'.repeat(1000));
      const { socket } = setting;
      while (asked < failAt && !(socket.writableLength > 0 && (await isStuck(socket)))) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      return { ...setting, asked };
    }

    async function isStuck(socket: Setting['socket']): Promise<boolean> {
      const before = socket.writableLength;
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      return socket.writableLength === before;
    }
  });
});

describe('stop', () => {
  it('tells a client that waits for a response why there will be none', async () => {
    const { client, session, channel } = await inState('WAITING_FOR_AGENT');
    session.stop();
    expect(await client.readsAll()).toMatch(
      /\nERR 67108941 No agent running <GPG Agent> - [^\n]*the bridge was stopped/,
    );
    expect(channel.closed).toBe(1);
  });

  it('greets a client that waits for the greeting: gpg would start an agent of its own', async () => {
    const { client, session, channel, greet } = await inState('CONNECTING_TO_AGENT');
    session.stop();
    expect(await client.readsAll()).toMatch(/^OK [^\n]*\nERR 67108941 No agent running/);
    expect(channel.closed).toBe(0);
    greet();
    await new Promise((resolve) => setImmediate(resolve));
    expect(channel.closed).toBe(1); // the line that came too late is given back
  });

  it.each(['READY', 'BUFFERING_COMMAND', 'BUFFERING_INQUIRE'] as const)(
    'in %s just closes',
    async (state) => {
      const { client, session } = await inState(state);
      client.forget();
      session.stop();
      expect(await client.readsAll()).toBe('');
      expect(book.entries).toEqual([]);
    },
  );
});

it('is FATAL when cleaning up fails, and still gone', async () => {
  const { session, socket, channel, endings } = await inState('READY');
  const destroy = socket.destroy;
  socket.destroy = () => {
    socket.destroy = destroy;
    throw new Error('cleanup broke');
  };
  session.stop();
  expect(session.machine.state).toBe('FATAL');
  expect(endings()).toBe(1);
  expect(channel.closed).toBe(1);
  expect(book.text).toContain('cleanup failed: cleanup broke');
});
