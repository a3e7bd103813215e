import { once } from 'node:events';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { ScriptedAgent } from '@gpg-bridge/test-support/scripted-agent';
import { describe, expect, it } from 'vitest';
import { BridgeError } from '../errors.ts';
import type { AgentConnection } from './connect.ts';
import { type OpenedAgent, type OpenOptions, onceMore, openAgent } from './open-agent.ts';

function open(connect: () => Promise<AgentConnection>, options: OpenOptions = {}): Promise<OpenedAgent> {
  return new Promise((opened, failed) => openAgent(connect, { opened, failed }, options));
}

const closedEarly = () => new BridgeError('AGENT_CLOSED', { what: 'it ended', why: 'early', fix: 'None.' });

describe('openAgent', () => {
  it('opens a connection that has greeted', async () => {
    const agent = await ScriptedAgent.start({ greeting: 'OK hello\n' });
    const { socket, greeting } = await open(agent.connect);
    expect(greeting.toString()).toBe('OK hello\n');
    expect(socket).toBe(agent.sockets[0]);
  });

  it('writes the nonce before the greeting is waited for', async () => {
    const agent = await ScriptedAgent.start({ greeting: '', answer: (line) => `OK ${line}\n` });
    const connect = async () => ({ ...(await agent.connect()), preamble: Buffer.from('nonce\n') });
    expect((await open(connect)).greeting.toString()).toBe('OK nonce\n');
  });

  it('tries an agent that is just ending once more, and says so', async () => {
    const book = new LogBook();
    const agent = await ScriptedAgent.start();
    let attempts = 0;
    const connect = () => (attempts++ === 0 ? Promise.reject(closedEarly()) : agent.connect());
    await open(connect, { log: book.log });
    expect(attempts).toBe(2);
    expect(book.text).toContain('it ended: trying once more');
  });

  it.each([
    { failure: closedEarly(), attempts: 2 },
    { failure: new BridgeError('AGENT_UNREACHABLE', { what: 'a', why: 'b', fix: 'C.' }), attempts: 1 },
  ])('fails with $failure.code after $attempts attempts', async ({ failure, attempts }) => {
    let made = 0;
    const connect = () => {
      made++;
      return Promise.reject(failure);
    };
    await expect(open(connect)).rejects.toBe(failure);
    expect(made).toBe(attempts);
  });

  it.each([
    ['silent', '', 'AGENT_GREETING_TIMEOUT'],
    ['no agent', 'HTTP/1.1 400\n', 'BAD_GREETING'],
  ])('is not tried again with one that is %s, whose connection is ended', async (_name, greeting, code) => {
    const agent = await ScriptedAgent.start({ greeting });
    const timeout = code === 'AGENT_GREETING_TIMEOUT' ? { greetingTimeoutMs: 10 } : {};
    await expect(open(agent.connect, timeout)).rejects.toMatchObject({ code });
    expect(agent.sockets.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  it('gives up when it is told to: the connection is ended, and nobody is called', async () => {
    const agent = await ScriptedAgent.start({ greeting: '' });
    const giveUp = new AbortController();
    const called: unknown[] = [];
    const opened = () => called.push('opened');
    openAgent(agent.connect, { opened, failed: (error) => called.push(error) }, { signal: giveUp.signal });
    while (agent.sockets.length === 0) await new Promise(setImmediate);
    giveUp.abort();
    await once(agent.sockets[0]!, 'close');
    expect(called).toEqual([]);
  });
});

describe('onceMore', () => {
  it('repeats what failed because the agent was ending, and nothing else', async () => {
    const failures = [closedEarly(), undefined];
    await onceMore(async () => {
      const failure = failures.shift();
      if (failure) throw failure;
    });
    expect(failures).toEqual([]);
    let attempts = 0;
    const other = new Error('other');
    await expect(
      onceMore(() => {
        attempts++;
        return Promise.reject(other);
      }),
    ).rejects.toBe(other);
    expect(attempts).toBe(1);
  });
});
