import { once } from 'node:events';
import { setImmediate as immediate } from 'node:timers/promises';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { ScriptedAgent, type ScriptedAgentOptions } from '@gpg-bridge/test-support/scripted-agent';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BridgeError } from '../errors.ts';
import { AgentSession, type AgentSessionOptions } from './agent-session.ts';
import type { AgentConnection } from './connect.ts';
import { openOnce } from './open-agent.ts';

const LONG_MS = 600_000;

let book: LogBook;
let ended: number;
const opened: AgentSession[] = [];

beforeEach(() => {
  book = new LogBook();
  ended = 0;
});
afterEach(async () => {
  // The second call finds no READY and does not wait for the agent.
  await Promise.all(opened.splice(0).flatMap((session) => [session.close(), session.close()]));
});

type Connect = () => Promise<AgentConnection>;
type Options = Partial<AgentSessionOptions> & { greetingTimeoutMs?: number };

function createSession(connect: Connect, { greetingTimeoutMs = LONG_MS, ...options }: Options = {}) {
  const session = new AgentSession({
    id: 'one',
    openAgent: (outcome, signal) => openOnce(connect, outcome, { greetingTimeoutMs, signal }),
    byeTimeoutMs: LONG_MS,
    maxResponseBytes: 1024 * 1024,
    rules: { finished: () => undefined },
    log: book.log,
    onEnded: () => {
      ended += 1;
    },
    ...options,
  });
  opened.push(session);
  return session;
}

async function setUp(agentOptions: ScriptedAgentOptions = {}, options: Options = {}) {
  const agent = await ScriptedAgent.start(agentOptions);
  const session = createSession(agent.connect, options);
  return { agent, session };
}

async function ready(agentOptions: ScriptedAgentOptions = {}, options: Options = {}) {
  const { agent, session } = await setUp(agentOptions, options);
  await session.open();
  return { agent, session, peer: agent.peers[0]!, socket: agent.sockets[0]! };
}

/** Data of an inquiry: more than the kernel takes for a reader that doesn't read. */
const ENDLESS = `${`D ${'x'.repeat(900)}\n`.repeat(10_000)}END\n`;

/** A session that owes data to an agent which reads none of it. */
async function inquired(options: Options = {}) {
  const answer = () => 'INQUIRE CIPHERTEXT\n';
  const made = await ready({ readsUntil: 'SETHASH --inquire', answer }, options);
  await made.session.send('SETHASH --inquire\n');
  return made;
}

function outcomeOf(promise: Promise<Buffer>): Promise<string> {
  return promise.then(
    (answer) => answer.toString('latin1'),
    (error: unknown) => (error instanceof BridgeError ? error.code : String(error)),
  );
}

/** The session's end of the socket closes: as the agent's process makes it close, or in this process. */
const CLOSES = [
  { how: 'agent closes', hadError: false, close: ({ peer }: Ends) => peer.end() },
  { how: 'agent resets', hadError: true, close: ({ peer }: Ends) => peer.resetAndDestroy() },
  { how: 'socket destroyed', hadError: false, close: ({ socket }: Ends) => socket.destroy() },
  {
    how: 'socket destroyed with an error',
    hadError: true,
    close: ({ socket }: Ends) => socket.destroy(new Error('broke')),
  },
];
type Ends = Pick<Awaited<ReturnType<typeof ready>>, 'peer' | 'socket'>;

describe('a connection that closes', () => {
  it.each(CLOSES)(
    '$how: in CONNECTING_TO_AGENT with the greeting owed, the call is rejected',
    async (end) => {
      const { agent, session } = await setUp({ greeting: '' });
      const greeting = outcomeOf(session.open());
      while (agent.sockets[0]?.listenerCount('data') !== 1) await immediate();
      expect(session.machine.state).toBe('CONNECTING_TO_AGENT');
      const closed = closeOf(agent.sockets[0]!);
      end.close({ peer: agent.peers[0]!, socket: agent.sockets[0]! });
      expect(await greeting).toBe('AGENT_CLOSED');
      expect(await closed).toBe(end.hadError);
      expect(session.machine.state).toBe('DISCONNECTED');
      expect(ended).toBe(1);
    },
  );

  it.each(CLOSES)('$how: in WAITING_FOR_AGENT with a response owed, the call is rejected', async (end) => {
    const { agent, session, ...ends } = await ready();
    const response = outcomeOf(session.send('PKSIGN\n'));
    await agent.hasRead('PKSIGN\n');
    expect(session.machine.state).toBe('WAITING_FOR_AGENT');
    const closed = closeOf(ends.socket);
    end.close(ends);
    expect(await response).toBe('AGENT_CLOSED');
    expect(await closed).toBe(end.hadError);
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(ended).toBe(1);
  });

  it.each(CLOSES)('$how: half-way through a response, the call is rejected', async (end) => {
    const { session, ...ends } = await ready({ answer: () => 'S PROGRESS\nD half' });
    const response = outcomeOf(session.send('PKSIGN\n'));
    await once(session.machine, 'AGENT_DATA_CHUNK');
    end.close(ends);
    expect(await response).toBe('AGENT_CLOSED');
    expect(ended).toBe(1);
  });

  it.each(CLOSES)('$how: in WAITING_FOR_AGENT with BYE owed, that is its answer', async (end) => {
    const { agent, session, ...ends } = await ready();
    const response = outcomeOf(session.send('BYE\n'));
    await agent.hasRead('BYE\n');
    end.close(ends);
    expect(await response).toBe('OK closing connection\n');
    expect(ended).toBe(1);
  });

  // An agent that closes without having read makes a reset, whatever it does: nothing else comes from outside.
  it.each(CLOSES.filter(({ how }) => how !== 'agent closes'))(
    '$how: in SENDING_TO_AGENT, the call is rejected',
    async (end) => {
      const { session, ...ends } = await inquired();
      const response = outcomeOf(session.send(ENDLESS));
      expect(session.machine.state).toBe('SENDING_TO_AGENT');
      end.close(ends);
      expect(await response).toBe('AGENT_CLOSED');
      expect(session.machine.state).toBe('DISCONNECTED');
      expect(ended).toBe(1);
    },
  );

  it.each(CLOSES)('$how: in READY with nothing owed, the session is over', async (end) => {
    const { session, ...ends } = await ready();
    const closed = closeOf(ends.socket);
    end.close(ends);
    expect(await closed).toBe(end.hadError);
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(ended).toBe(1);
    expect(book.entries.length).toBe(end.hadError ? 1 : 0); // nobody else could be told
  });

  it('ends once, whatever else the socket does', async () => {
    const { session, socket } = await ready();
    const response = outcomeOf(session.send('NOP\n'));
    socket.destroy(new Error('first'));
    await response;
    socket.emit('error', new Error('late'));
    socket.emit('close', true);
    await session.close();
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(ended).toBe(1);
  });
});

describe('connecting', () => {
  it('passes on why it failed', async () => {
    const failure = new BridgeError('AGENT_UNREACHABLE', { what: 'no', why: 'agent', fix: 'Start it.' });
    const session = createSession(() => Promise.reject(failure));
    await expect(session.open()).rejects.toBe(failure);
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(ended).toBe(1);
  });

  it('gives up at once when it is closed meanwhile, and ends the connection that comes late', async () => {
    const agent = await ScriptedAgent.start();
    let goOn = () => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const session = createSession(() => held.then(agent.connect));
    const greeting = outcomeOf(session.open());
    await session.close();
    expect(await greeting).toBe('SESSION_ENDED');
    expect(session.machine.state).toBe('DISCONNECTED');
    goOn();
    while (agent.peers.length === 0) await immediate();
    await closeOf(agent.peers[0]!);
  });

  it('does not wait longer for a greeting than it is told to', async () => {
    const { session, agent } = await setUp({ greeting: '' }, { greetingTimeoutMs: 20 });
    expect(await outcomeOf(session.open())).toBe('AGENT_GREETING_TIMEOUT');
    expect(agent.sockets[0]?.destroyed).toBe(true);
  });

  it.each([
    { greeting: 'ERR 67109115 Forbidden <GPG Agent>\n', code: 'BAD_GREETING', says: 'Forbidden <GPG Agent>' },
    { greeting: 'HTTP/1.1 400 Bad Request\n\n', code: 'BAD_GREETING', says: 'not a greeting' },
    { greeting: 'x'.repeat(1100), code: 'LINE_TOO_LONG', says: '1,000' },
    { greeting: 'OK hello\nOK again\n', code: 'AGENT_OUT_OF_TURN', says: 'out of turn' },
  ])('refuses a greeting like $code ($says)', async ({ greeting, code, says }) => {
    const { session, agent } = await setUp({ greeting });
    const error = await session.open().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code, message: expect.stringContaining(says) });
    expect(agent.sockets[0]?.destroyed).toBe(true);
    expect(ended).toBe(1);
  });

  it.each(['OK\n', 'OKAY then\n', '# a comment\nOK hi\r\n'])('takes %j for a greeting', async (greeting) => {
    const { session } = await setUp({ greeting });
    expect((await session.open()).toString('latin1')).toBe(greeting);
  });
});

describe('a command', () => {
  it('is never timed out', async () => {
    const timeouts = { greetingTimeoutMs: 500, byeTimeoutMs: 500 };
    const { agent, session, peer } = await ready({}, timeouts);
    const response = outcomeOf(session.send('PKSIGN\n'));
    await agent.hasRead('PKSIGN\n');
    // When another session has lost the same patience, this one would have too.
    const silent = await setUp({ greeting: '' }, timeouts);
    expect(await outcomeOf(silent.session.open())).toBe('AGENT_GREETING_TIMEOUT');
    peer.write('OK\n');
    expect(await response).toBe('OK\n');
  });

  it('gets its whole response, cut at every byte', async () => {
    const response = 'S PROGRESS tick\nD OK\x00\xff%0A\n# OK\nD ERR\nERR 67109115 Forbidden\n';
    const { agent, session, peer } = await ready();
    for (let at = 1; at < response.length; at++) {
      const answer = outcomeOf(session.send(`NOP ${at}\n`));
      await agent.hasRead(`NOP ${at}\n`);
      const half = once(session.machine, 'AGENT_DATA_CHUNK');
      peer.write(response.slice(0, at), 'latin1');
      await half;
      peer.write(response.slice(at), 'latin1');
      expect(await answer).toBe(response);
    }
  });

  it('may be answered with an inquiry, and the data with another', async () => {
    const { session } = await ready({
      answer: (line) => ({ 'SETHASH --inquire': 'INQUIRE A\n', END: 'INQUIRE B\n', CAN: 'ERR 99\n' })[line],
    });
    expect(await outcomeOf(session.send('SETHASH --inquire\n'))).toBe('INQUIRE A\n');
    expect(await outcomeOf(session.send('D abc\nEND\n'))).toBe('INQUIRE B\n');
    expect(await outcomeOf(session.send('CAN\n'))).toBe('ERR 99\n');
  });

  it('outside READY is a violation: it is rejected, the first call too, and the session ends', async () => {
    const { session, socket } = await ready();
    const first = outcomeOf(session.send('PKSIGN\n'));
    const second = outcomeOf(session.send('NOP\n'));
    expect(await second).toBe('SESSION_NOT_READY');
    expect(await first).toBe('SESSION_NOT_READY');
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(socket.destroyed).toBe(true);
    expect(ended).toBe(1);
    expect(await outcomeOf(session.send('NOP\n'))).toBe('SESSION_NOT_READY');
  });

  it('in the place of BYE’s answer is a violation too', async () => {
    const { session } = await ready();
    const bye = outcomeOf(session.send('BYE\n'));
    expect(await outcomeOf(session.send('NOP\n'))).toBe('SESSION_NOT_READY');
    expect(await bye).toBe('SESSION_NOT_READY');
  });

  it.each(['', 'NOP', 'NOP\r'])(
    'that is no whole line (%j) is refused, and the session goes on',
    async (block) => {
      const { session } = await ready({ answer: () => 'OK\n' });
      expect(await outcomeOf(session.send(block))).toBe('BLOCK_INCOMPLETE');
      expect(await outcomeOf(session.send('NOP\n'))).toBe('OK\n');
    },
  );

  it.each([
    { name: 'a line that is too long', answer: `D ${'x'.repeat(1100)}\nOK\n`, code: 'LINE_TOO_LONG' },
    { name: 'too much', answer: `${'D 0123456789\n'.repeat(100)}OK\n`, code: 'BLOCK_TOO_LARGE' },
    { name: 'too much, without an end', answer: 'S x\n'.repeat(300), code: 'BLOCK_TOO_LARGE' },
    { name: 'garbage', answer: 'HTTP/1.1 200\n', code: 'BAD_RESPONSE' },
    { name: 'two responses', answer: 'OK\nOK\n', code: 'AGENT_OUT_OF_TURN' },
  ])('answered with $name is rejected with $code', async ({ answer, code }) => {
    const { session, socket } = await ready({ answer: () => answer }, { maxResponseBytes: 1024 });
    expect(await outcomeOf(session.send('NOP\n'))).toBe(code);
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(socket.destroyed).toBe(true);
  });

  it('is not waited for when the agent only speaks and never listens', async () => {
    const { session, peer } = await inquired({ maxResponseBytes: 64 * 1024 });
    const response = outcomeOf(session.send(ENDLESS));
    peer.write(Buffer.alloc(1024 * 1024, 'S x\n'));
    expect(await response).toBe('AGENT_OUT_OF_TURN');
  });

  it.each(['NOP\nPKSIGN\n', 'BYE\nNOP\n', '# nothing\n'])('%j is not one, and is refused', async (block) => {
    const { session } = await ready();
    expect(await outcomeOf(session.send(block))).toBe('BLOCK_INCOMPLETE');
    expect(session.machine.state).toBe('READY');
  });

  it('that nobody asked is not answered: an agent that speaks in READY ends the session', async () => {
    const { session, peer, socket } = await ready();
    peer.write('S UNASKED\n');
    await book.said(/out of turn/);
    expect(session.machine.state).toBe('DISCONNECTED');
    expect(socket.destroyed).toBe(true);
  });
});

describe('BYE', () => {
  it.each(['BYE\n', 'bye\r\n', 'BYE now\n', '# a comment\n\nBYE\n'])(
    'sent as %j is answered by whichever is first, the agent or the end',
    async (block) => {
      const { agent, session, peer } = await ready();
      const response = outcomeOf(session.send(block));
      await agent.hasRead(block.slice(block.search(/bye/i)));
      peer.end();
      expect(await response).toBe('OK closing connection\n');
    },
  );

  it.each(['BYEBYE\n', 'D BYE\n'])('is not what %j means', async (block) => {
    const { agent, session, peer } = await ready();
    const response = outcomeOf(session.send(block));
    await agent.hasRead(block);
    peer.end();
    expect(await response).toBe('AGENT_CLOSED');
  });

  it('returns the agent’s own words when they come', async () => {
    const { session } = await ready({ answer: () => 'OK closing connection, really\n' });
    expect(await outcomeOf(session.send('BYE\n'))).toBe('OK closing connection, really\n');
  });
});

describe('close', () => {
  it('says BYE in READY', async () => {
    const { agent, session, socket } = await ready({ answer: () => 'OK closing connection\n' });
    await session.close();
    expect(agent.received).toBe('BYE\n');
    expect(socket.destroyed).toBe(true);
    expect(ended).toBe(1);
  });

  it('resolves when the agent closes without an answer', async () => {
    const { agent, session, peer } = await ready();
    const closing = session.close();
    await agent.hasRead('BYE\n');
    peer.resetAndDestroy();
    await closing;
    expect(ended).toBe(1);
  });

  it('does not wait longer for the answer than it is told to', async () => {
    const { session, socket } = await ready({}, { byeTimeoutMs: 10 });
    await session.close();
    expect(socket.destroyed).toBe(true);
  });

  it('ends the socket at once while a response is owed, whose call is rejected', async () => {
    const { agent, session, socket } = await ready();
    const response = outcomeOf(session.send('PKSIGN\n'));
    await session.close();
    expect(socket.destroyed).toBe(true);
    expect(await response).toBe('SESSION_ENDED');
    expect(agent.received).not.toContain('BYE');
  });

  it('ends the socket at once while a BYE is owed, which is what it asked for', async () => {
    const { session } = await ready();
    const bye = outcomeOf(session.send('BYE\n'));
    await session.close();
    expect(await bye).toBe('OK closing connection\n');
  });

  it('may be called twice, and after the end', async () => {
    const { session } = await ready();
    await Promise.all([session.close(), session.close()]);
    await session.close();
    expect(ended).toBe(1);
  });
});

it('is FATAL when cleaning up fails, and still gone, with the waiting call told', async () => {
  const agent = await ScriptedAgent.start();
  const connect = async (): Promise<AgentConnection> => {
    const connection = await agent.connect();
    const { socket } = connection;
    const destroy = socket.destroy;
    socket.destroy = () => {
      socket.destroy = destroy;
      throw new Error('cleanup broke');
    };
    return connection;
  };
  const session = createSession(connect);
  await session.open();
  const response = outcomeOf(session.send('PKSIGN\n'));
  await agent.hasRead('PKSIGN\n');
  await session.close();
  expect(session.machine.state).toBe('FATAL');
  expect(ended).toBe(1);
  expect(await response).toBe('SESSION_ENDED');
  expect(book.text).toContain('cleanup failed: cleanup broke');
  expect(await outcomeOf(session.send('NOP\n'))).toBe('SESSION_NOT_READY');
});

/** Whether the socket closed with an error, once it has. */
function closeOf(socket: Ends['socket']): Promise<boolean> {
  return new Promise((resolve) => {
    socket.prependOnceListener('close', (hadError) => resolve(hadError));
  });
}
