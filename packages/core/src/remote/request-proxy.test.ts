import { existsSync } from 'node:fs';
import { readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { BridgeError } from '../errors.ts';
import type { CommandExecutor } from './agent-channel.ts';
import { type RequestProxyConfig, startRequestProxy } from './request-proxy.ts';

const GREETING = 'OK Pleased to meet you\n';

/** A carrier to a host that answers OK, with any of its calls replaced. */
function carrier(replaced: Partial<CommandExecutor> = {}) {
  const calls: string[] = [];
  const executor: CommandExecutor = {
    connectAgent: async () => ({ sessionId: 'id', greeting: GREETING }),
    sendCommands: async () => ({ response: 'OK\n' }),
    disconnectAgent: async () => {},
    ...replaced,
  };
  const recorded: CommandExecutor = {
    connectAgent: () => executor.connectAgent(),
    sendCommands: (id, block) => executor.sendCommands(id, block),
    disconnectAgent: (id) => {
      calls.push(`disconnect ${id}`);
      return executor.disconnectAgent(id);
    },
  };
  return { executor: recorded, calls };
}

async function start(replaced: Partial<CommandExecutor> = {}, config: RequestProxyConfig = {}) {
  const path = join(await tempDir(), 'S.gpg-agent');
  const book = new LogBook();
  const { executor, calls } = carrier(replaced);
  /** How many clients were connected, whenever that changed. */
  const counts: number[] = [];
  const onSessionsChanged = (open: number) => void counts.push(open);
  const proxy = await startRequestProxy(
    { logCallback: book.log, onSessionsChanged, ...config },
    { commandExecutor: executor, getSocketPath: async () => path, stopOwnAgent: async () => {} },
  );
  onTestFinished(() => proxy.stop());
  return { path, proxy, book, calls, counts, connect: () => TestClient.connect(path) };
}

/** Values that no version of the host's side should return. */
const unfit = (value: unknown) => value as never;

describe('a carrier', () => {
  it.each<{ name: string; replaced: Partial<CommandExecutor>; says: string }>([
    {
      name: 'rejects',
      replaced: { connectAgent: () => Promise.reject(new Error('gone away')) },
      says: 'gone away',
    },
    {
      name: 'rejects with a reason of ours',
      replaced: {
        connectAgent: () =>
          Promise.reject(
            new BridgeError('AGENT_UNREACHABLE', { what: 'w', why: 'nothing listens', fix: 'F.' }),
          ),
      },
      says: 'w: nothing listens. F.',
    },
    {
      name: 'throws',
      replaced: {
        connectAgent: () => {
          throw new Error('thrown at once');
        },
      },
      says: 'thrown at once',
    },
    {
      name: 'returns nothing',
      replaced: { connectAgent: async () => unfit(undefined) },
      says: 'without an id',
    },
    {
      name: 'returns no id',
      replaced: { connectAgent: async () => unfit({ greeting: GREETING }) },
      says: 'without an id',
    },
    {
      name: 'returns no greeting',
      replaced: { connectAgent: async () => unfit({ sessionId: 'id' }) },
      says: 'not an OK',
    },
    {
      name: 'returns an ERR for a greeting',
      replaced: { connectAgent: async () => ({ sessionId: 'id', greeting: 'ERR 67109115 Forbidden\n' }) },
      says: 'not an OK',
    },
    {
      name: 'returns half a greeting',
      replaced: { connectAgent: async () => ({ sessionId: 'id', greeting: 'OK Pleased' }) },
      says: 'not an OK',
    },
  ])(
    'that $name on connecting: an OK greeting all the same, then ERR with the reason',
    async ({ replaced, says }) => {
      const { connect, counts } = await start(replaced);
      const client = await connect();
      expect(await client.reads('\n')).toMatch(/^OK [^\n]*\n$/);
      client.write('RESET\n');
      const answer = await client.reads('ERR');
      expect(answer).toContain('ERR 67108941 No agent running <GPG Agent> - ');
      expect(answer).toContain(says);
      client.write('BYE\n');
      expect(await client.readsAll()).toMatch(/OK closing connection\n$/);
      await expect.poll(() => counts.at(-1), PATIENT).toBe(0);
    },
  );

  it('that gives a session with an unfit greeting gets it back', async () => {
    const { connect, calls } = await start({
      connectAgent: async () => ({ sessionId: 'id', greeting: 'ERR 1\n' }),
    });
    const client = await connect();
    await client.reads('\n');
    expect(calls).toEqual(['disconnect id']);
  });

  it('that never answers is stood in for after the timeout; a session that comes late is given back', async () => {
    let answer = (_: { sessionId: string; greeting: string }) => {};
    const late = new Promise<{ sessionId: string; greeting: string }>((resolve) => {
      answer = resolve;
    });
    const { connect, calls } = await start({ connectAgent: () => late }, { carrierTimeoutMs: 20 });
    const client = await connect();
    client.write('RESET\n');
    expect(await client.reads('ERR')).toContain('it opened no session within 20 ms');
    answer({ sessionId: 'late', greeting: GREETING });
    await late;
    await expect.poll(() => calls, PATIENT).toEqual(['disconnect late']);
  });

  it.each<{ name: string; sendCommands: CommandExecutor['sendCommands']; says: string }>([
    { name: 'rejects', sendCommands: () => Promise.reject(new Error('gone away')), says: 'gone away' },
    {
      name: 'throws',
      sendCommands: () => {
        throw new Error('thrown at once');
      },
      says: 'thrown at once',
    },
    { name: 'returns nothing', sendCommands: async () => unfit(undefined), says: 'with nothing' },
    { name: 'returns no text', sendCommands: async () => unfit({ response: 7 }), says: 'with nothing' },
    {
      name: 'returns half a response',
      sendCommands: async () => ({ response: 'D x\n' }),
      says: 'does not end',
    },
  ])('that $name later on: an ERR line, then the socket closes', async ({ sendCommands, says }) => {
    const { connect, calls } = await start({ sendCommands });
    const client = await connect();
    client.write('RESET\n');
    const all = await client.readsAll();
    expect(all).toContain(`${GREETING}ERR 67108941 No agent running <GPG Agent> - `);
    expect(all).toContain(says);
    expect(calls).toEqual(['disconnect id']);
  });

  it.each<{ name: string; disconnectAgent: CommandExecutor['disconnectAgent'] }>([
    { name: 'rejects', disconnectAgent: () => Promise.reject(new Error('no such session')) },
    {
      name: 'throws',
      disconnectAgent: () => {
        throw new Error('thrown at once');
      },
    },
  ])('that $name on disconnecting is of no matter', async ({ disconnectAgent }) => {
    const { connect, counts, book } = await start({ disconnectAgent });
    const client = await connect();
    await client.reads(GREETING);
    client.socket.destroy();
    await expect.poll(() => counts.at(-1), PATIENT).toBe(0);
    expect(book.text).not.toContain('cleanup failed');
  });
});

describe('clients', () => {
  it('are counted as they come and go', async () => {
    const { connect, counts, proxy } = await start();
    const [one, two] = [await connect(), await connect()];
    await Promise.all([one.reads(GREETING), two.reads(GREETING)]);
    expect(counts.at(-1)).toBe(2);
    one.socket.destroy();
    await expect.poll(() => counts.at(-1), PATIENT).toBe(1);
    await proxy.stop();
    expect(counts).toEqual([1, 2, 1, 0]);
  });

  it('that misbehave harm nobody else', async () => {
    const { connect } = await start({}, { maxBlockBytes: 2000 });
    const [long, large, good] = [await connect(), await connect(), await connect()];
    long.write('x'.repeat(5000));
    large.write('#\n'.repeat(5000));
    expect(await long.readsAll()).toContain('ERR 67109127');
    expect(await large.readsAll()).toContain('ERR 67109137');
    good.write('NOP\n');
    await good.reads(`${GREETING}OK\n`);
  });
});

describe('stop', () => {
  it('ends every session, removes the socket, and may be called again', async () => {
    const { connect, counts, path, proxy, calls } = await start({
      sendCommands: () => new Promise(() => {}),
    });
    const [idle, busy] = [await connect(), await connect()];
    await Promise.all([idle.reads(GREETING), busy.reads(GREETING)]);
    busy.write('PKSIGN\n');
    await expect.poll(() => counts.at(-1), PATIENT).toBe(2);
    await proxy.stop();
    expect(existsSync(path)).toBe(false);
    expect(counts.at(-1)).toBe(0);
    await Promise.all([idle.readsAll(), busy.readsAll()]);
    expect(calls).toEqual(['disconnect id', 'disconnect id']);
    await proxy.stop();
  });

  it('leaves a file alone that has taken the socket’s place', async () => {
    const { path, proxy, book } = await start();
    await writeFile(`${path}.new`, 'not ours');
    await rename(`${path}.new`, path);
    await book.said(/replaced the socket/);
    await proxy.stop();
    expect(await readFile(path, 'utf8')).toBe('not ours');
  });
});

it('listens with mode 0600 where it was told to', async () => {
  const { path, proxy } = await start();
  expect(proxy.socketPath).toBe(path);
  const { mode } = await stat(path);
  expect(mode & 0o777).toBe(0o600);
});
