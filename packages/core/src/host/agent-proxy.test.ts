import { ciphertextOf } from '@gpg-bridge/test-support/ciphertext';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { ScriptedAgent, type ScriptedAgentOptions } from '@gpg-bridge/test-support/scripted-agent';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { describe, expect, it } from 'vitest';
import type { Operation } from '../assuan/operation.ts';
import { AgentProxy, type AgentProxyConfig } from './agent-proxy.ts';
import type { KeyUse } from './key-use-record.ts';
import { PromptPace } from './prompt-pace.ts';

async function setUp(agentOptions: ScriptedAgentOptions = {}, config: AgentProxyConfig = {}) {
  const agent = await ScriptedAgent.start({ answer: () => 'OK\n', ...agentOptions });
  const book = new LogBook();
  return {
    agent,
    book,
    proxy: new AgentProxy({ logCallback: book.log, ...config }, { connect: agent.connect }),
  };
}

/** A record that says in which order things happened. */
function recorded(agent: { received: string }) {
  const events: string[] = [];
  const record = {
    begin({ command, key }: KeyUse) {
      events.push(`${command} ${key} begins, agent has ${agent.received.includes(command)}`);
      return { finish: (outcome: string) => void events.push(outcome) };
    },
  };
  return { events, use: { pace: new PromptPace(), record } };
}

describe('a use of a private key through an AgentProxy', () => {
  const GRIP = 'A'.repeat(40);

  it('is on record before the agent gets it and before its answer leaves', async () => {
    const agent = await ScriptedAgent.start({ answer: (line) => (line[0] === '#' ? undefined : 'OK\n') });
    const { events, use } = recorded(agent);
    const proxy = new AgentProxy({ use }, { connect: agent.connect });
    const { sessionId } = await proxy.connectAgent();
    await proxy.sendCommands(sessionId, `sigkey ${GRIP}\n`);
    await proxy.sendCommands(sessionId, '# comment\npksign\n').then(() => events.push('answered'));
    expect(events).toEqual([`PKSIGN ${GRIP} begins, agent has false`, 'ok', 'answered']);
    await proxy.stop();
  });

  it('is not carried out if it can not be recorded, and everything else is', async () => {
    const agent = await ScriptedAgent.start({ answer: () => 'OK\n' });
    const record = {
      begin() {
        throw new Error('the disk is full');
      },
    };
    const proxy = new AgentProxy({ use: { pace: new PromptPace(), record } }, { connect: agent.connect });
    const { sessionId } = await proxy.connectAgent();
    const { response } = await proxy.sendCommands(sessionId, 'PKSIGN\n');
    expect(response).toMatch(/^ERR \d+ .*the disk is full.*\n$/);
    expect(await proxy.sendCommands(sessionId, 'NOP\n')).toEqual({ response: 'OK\n' });
    expect(agent.received).toBe('NOP\n');
    await proxy.stop();
  });

  it('waits while another one of the remote waits for a person, and ends with its session', async () => {
    const agent = await ScriptedAgent.start({ answer: (line) => (line === 'PKSIGN' ? undefined : 'OK\n') });
    const { events, use } = recorded(agent);
    const turn = new PromptPace({ maxAtOnce: 1 });
    const proxy = new AgentProxy({ use: { ...use, pace: turn } }, { connect: agent.connect });
    const [first, second] = await Promise.all([proxy.connectAgent(), proxy.connectAgent()]);
    const waiting = proxy.sendCommands(first.sessionId, 'PKSIGN\n').catch((error) => error.code);
    await agent.hasRead('PKSIGN\n');
    const next = proxy.sendCommands(second.sessionId, 'PKDECRYPT\n');
    expect(turn.waiting).toBe(1);
    expect(agent.received).not.toContain('PKDECRYPT');
    await proxy.disconnectAgent(first.sessionId);
    expect(await waiting).toBe('SESSION_ENDED');
    expect(await next).toEqual({ response: 'OK\n' });
    expect(events).toEqual([
      'PKSIGN undefined begins, agent has false',
      'closed',
      'PKDECRYPT undefined begins, agent has false',
      'ok',
    ]);
    await proxy.stop();
  });

  it('can not be had by a line that is cut, or a passphrase asked for', async () => {
    const { agent, proxy } = await setUp();
    const { sessionId } = await proxy.connectAgent();
    const block = `PKSIGN\n${'x'.repeat(1_002)}`;
    await expect(proxy.sendCommands(sessionId, block)).rejects.toMatchObject({ code: 'BLOCK_INCOMPLETE' });
    const { response } = await proxy.sendCommands(sessionId, 'GET_PASSPHRASE X X X X\n');
    expect(response).toBe('ERR 67109115 Forbidden <GPG Agent>\n');
    expect(agent.received).toBe('');
    await proxy.stop();
  });
});

describe('AgentProxy', () => {
  it('gives every session an id, the greeting, and its own conversation', async () => {
    const { book, proxy } = await setUp({ answer: (line) => `D ${line}\nOK\n` });
    const [one, two] = await Promise.all([proxy.connectAgent(), proxy.connectAgent()]);
    expect(one.greeting).toBe('OK Pleased to meet you\n');
    expect(one.sessionId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    expect(two.sessionId).not.toBe(one.sessionId);
    const answers = await Promise.all([
      proxy.sendCommands(one.sessionId, 'HELP ONE\n'),
      proxy.sendCommands(two.sessionId, 'HELP TWO\n'),
    ]);
    expect(answers).toEqual([{ response: 'D HELP ONE\nOK\n' }, { response: 'D HELP TWO\nOK\n' }]);
    await proxy.disconnectAgent(one.sessionId);
    expect(book.openSessions).toBe(1);
    await proxy.stop();
    expect(book.openSessions).toBe(0);
  });

  it('carries every byte both ways as one character', async () => {
    const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
      .filter((character) => !'\n\r%'.includes(character))
      .join('');
    const answers: Record<string, string> = {
      PKDECRYPT: 'INQUIRE CIPHERTEXT\n',
      END: `D ${bytes}\nOK\n`,
    };
    const { agent, proxy } = await setUp({ answer: (line) => answers[line] });
    const { sessionId } = await proxy.connectAgent();
    await proxy.sendCommands(sessionId, 'PKDECRYPT\n');
    const block = `D ${ciphertextOf(bytes)}\nEND\n`;
    expect(await proxy.sendCommands(sessionId, block)).toEqual({ response: `D ${bytes}\nOK\n` });
    expect(agent.received).toBe(`PKDECRYPT\n${block}`);
    await proxy.stop();
  });

  it('refuses characters that are not a byte: cut to one they would be another command', async () => {
    const { agent, proxy } = await setUp();
    const { sessionId } = await proxy.connectAgent();
    const refused = expect.objectContaining({ code: 'BLOCK_INCOMPLETE' });
    await expect(proxy.sendCommands(sessionId, '\u0150KSIGN\n')).rejects.toEqual(refused);
    const told = { table: 0, told: [1], lines: '\u0152ESET\n' };
    await expect(proxy.sendCommands(sessionId, 'NOP\n', told)).rejects.toEqual(refused);
    await expect(proxy.connectAgent({ ...told, block: 'NOP\n' })).rejects.toEqual(refused);
    expect(agent.received).toBe('');
    await proxy.stop();
  });

  it('opens no more sessions than its limit, and leaves those that are open alone', async () => {
    const { proxy } = await setUp({}, { maxSessions: 2 });
    const [first] = await Promise.all([proxy.connectAgent(), proxy.connectAgent()]);
    await expect(proxy.connectAgent()).rejects.toMatchObject({ code: 'SESSION_LIMIT' });
    expect(await proxy.sendCommands(first.sessionId, 'NOP\n')).toEqual({ response: 'OK\n' });
    await proxy.disconnectAgent(first.sessionId);
    await proxy.connectAgent();
    await proxy.stop();
  });

  it('tries once more when the agent closes before its greeting, as one does that is just ending', async () => {
    const ending = await ScriptedAgent.start({ greeting: '' });
    const next = await ScriptedAgent.start();
    let attempts = 0;
    const connect = async () => {
      attempts += 1;
      if (attempts > 1) return next.connect();
      const connection = await ending.connect();
      ending.peers[0]!.end();
      return connection;
    };
    const book = new LogBook();
    const proxy = new AgentProxy({ logCallback: book.log }, { connect });
    expect((await proxy.connectAgent()).greeting).toBe('OK Pleased to meet you\n');
    expect([attempts, book.openSessions]).toEqual([2, 1]);
    await next.stop();
    await proxy.stop();
  });

  it('does not try for ever', async () => {
    const agent = await ScriptedAgent.start({ greeting: '' });
    let attempts = 0;
    const connect = async () => {
      const connection = await agent.connect();
      agent.peers[attempts++]!.end();
      return connection;
    };
    await expect(new AgentProxy({}, { connect }).connectAgent()).rejects.toMatchObject({
      code: 'AGENT_CLOSED',
    });
    expect(attempts).toBe(2);
  });

  it('counts sessions that are still connecting', async () => {
    const book = new LogBook();
    const proxy = new AgentProxy(
      { logCallback: book.log, maxSessions: 1 },
      { connect: () => new Promise(() => {}) },
    );
    const first = proxy.connectAgent();
    await expect(proxy.connectAgent()).rejects.toMatchObject({ code: 'SESSION_LIMIT' });
    const rejected = expect(first).rejects.toMatchObject({ code: 'SESSION_ENDED' });
    await proxy.stop();
    await rejected;
    expect(book.openSessions).toBe(0);
  });

  it('ends the session whose response is too large, and no other', async () => {
    const { book, proxy } = await setUp(
      { answer: (line) => (line === 'HELP' ? `${'D 0123456789\n'.repeat(100)}OK\n` : 'OK\n') },
      { maxResponseBytes: 1000 },
    );
    const [greedy, other] = await Promise.all([proxy.connectAgent(), proxy.connectAgent()]);
    await expect(proxy.sendCommands(greedy.sessionId, 'HELP\n')).rejects.toMatchObject({
      code: 'BLOCK_TOO_LARGE',
    });
    expect(await proxy.sendCommands(other.sessionId, 'NOP\n')).toEqual({ response: 'OK\n' });
    expect(book.openSessions).toBe(1);
    await proxy.stop();
  });

  it('knows no session that it did not open, nor one that has ended', async () => {
    const { proxy } = await setUp();
    const { sessionId } = await proxy.connectAgent();
    await proxy.disconnectAgent(sessionId);
    for (const id of [sessionId, 'nonsense']) {
      await expect(proxy.sendCommands(id, 'NOP\n')).rejects.toMatchObject({ code: 'SESSION_UNKNOWN' });
      await expect(proxy.disconnectAgent(id)).rejects.toMatchObject({ code: 'SESSION_UNKNOWN' });
    }
  });

  it('forgets a session whose cleanup fails', async () => {
    const { agent, book, proxy } = await setUp({ answer: () => undefined });
    const { sessionId } = await proxy.connectAgent();
    const socket = agent.sockets[0]!;
    const { destroy } = socket;
    socket.destroy = () => {
      socket.destroy = destroy;
      throw new Error('cleanup broke');
    };
    const response = expect(proxy.sendCommands(sessionId, 'NOP\n')).rejects.toMatchObject({
      code: 'SESSION_ENDED',
    });
    await proxy.disconnectAgent(sessionId);
    await response;
    expect(book.openSessions).toBe(0);
    await expect(proxy.sendCommands(sessionId, 'NOP\n')).rejects.toMatchObject({ code: 'SESSION_UNKNOWN' });
  });

  it('has 64 connections to the agent at most, and further clients wait for their turn', async () => {
    const { agent, proxy } = await setUp();
    const opened = await Promise.all(Array.from({ length: 64 }, () => proxy.connectAgent()));
    let isOpen = false;
    const next = proxy.connectAgent().then((session) => {
      isOpen = true;
      return session;
    });
    const last = expect(proxy.connectAgent()).rejects.toMatchObject({ code: 'SESSION_ENDED' });
    expect(await proxy.sendCommands(opened[1]!.sessionId, 'NOP\n')).toEqual({ response: 'OK\n' });
    expect([isOpen, agent.sockets.length]).toEqual([false, 64]);
    await proxy.disconnectAgent(opened[0]!.sessionId);
    expect(await proxy.sendCommands((await next).sessionId, 'NOP\n')).toEqual({ response: 'OK\n' });
    expect(agent.sockets.length).toBe(65);
    await proxy.stop();
    await last;
  });

  it('stops with sessions in every phase', async () => {
    const { agent, book, proxy } = await setUp({ answer: (line) => (line === 'BYE' ? 'OK\n' : undefined) });
    await proxy.connectAgent();
    const busy = await proxy.connectAgent();
    const owed = expect(proxy.sendCommands(busy.sessionId, 'PKSIGN\n')).rejects.toMatchObject({
      code: 'SESSION_ENDED',
    });
    const connecting = expect(proxy.connectAgent()).rejects.toMatchObject({ code: 'SESSION_ENDED' });
    await proxy.stop();
    await owed;
    await connecting;
    expect(book.openSessions).toBe(0);
    expect(agent.sockets.slice(0, 2).every((socket) => socket.destroyed)).toBe(true);
  });

  it('tells of operations and logs what happens, never of payload', async () => {
    const payload = 'D67A90F1-payload';
    const book = new LogBook();
    const operations: [string, Operation][] = [];
    const errors: unknown[] = [];
    const { agent, proxy } = await setUp(
      {
        answer: (line) =>
          ({
            PKDECRYPT: `INQUIRE ${payload}\n`,
            END: `D ${payload}\nOK ${payload}\n`,
            NOP: `${payload}\n`,
          })[line],
      },
      { logCallback: book.log, onOperation: (id, operation) => void operations.push([id, operation]) },
    );
    const { sessionId } = await proxy.connectAgent();
    await proxy.sendCommands(sessionId, 'PKDECRYPT\n');
    await proxy.sendCommands(sessionId, `D ${ciphertextOf(payload)}\nEND\n`);
    await proxy.sendCommands(sessionId, 'NOP\n').catch((error: unknown) => errors.push(error));
    const killed = await proxy.connectAgent();
    const owed = proxy.sendCommands(killed.sessionId, `SETKEYDESC ${payload}\n`);
    owed.catch((error: unknown) => errors.push(error));
    await agent.hasRead('SETKEYDESC');
    agent.peers[1]!.resetAndDestroy();
    await expect(owed).rejects.toMatchObject({ code: 'AGENT_CLOSED' });

    expect(operations.map(([id, { command, outcome }]) => [id, command, outcome])).toEqual([
      [sessionId, 'PKDECRYPT', 'ok'],
      [sessionId, 'NOP', 'closed'],
      [killed.sessionId, 'SETKEYDESC', 'closed'],
    ]);
    expect(errors.length).toBe(2);
    expect(book.entries.length).toBeGreaterThan(0);
    expectNoSecret(Buffer.from(payload), book.text, operations, ...errors);
  });
});
