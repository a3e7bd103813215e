import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { failure } from '@gpg-bridge/test-support/failure';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { TcpAgent } from '@gpg-bridge/test-support/tcp-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ask } from '../assuan/ask.ts';
import { type AgentConnection, type ConnectOptions, connectToAgent } from './connect.ts';

const nonce = Buffer.from('0a0d00ff0102030405060708090a0b0c', 'hex');
const QUICKLY = { timeoutMs: 100 };

/** A Unix server that greets, gone with the test. */
async function unixServer(path: string): Promise<net.Server> {
  const open = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    open.add(socket.on('error', () => {}));
    socket.write('OK hello\n');
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return server;
}

async function connect(path: string, options?: ConnectOptions): Promise<AgentConnection> {
  const connection = await connectToAgent(path, options);
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

/** Counts attempts, and lets a test act between them. */
function countingFactory(onAttempt: (count: number) => void = () => {}) {
  const sockets: net.Socket[] = [];
  const socketFactory = (options: net.NetConnectOpts) => {
    const socket = net.connect(options);
    sockets.push(socket);
    onAttempt(sockets.length);
    return socket;
  };
  return { sockets, socketFactory };
}

async function greeted(connection: AgentConnection): Promise<string> {
  connection.socket.write(connection.preamble);
  return (await ask(connection.socket, [], { timeoutMs: 30_000 })).greeting.bytes.toString();
}

describe('Unix sockets', () => {
  test('connect with one socket and no look at the file', async () => {
    const path = join(await tempDir(), 'S');
    await unixServer(path);
    const { sockets, socketFactory } = countingFactory();
    const fileSystem = { read: () => Promise.reject(new Error('was read')) };
    const connection = await connect(path, { socketFactory, fileSystem });
    expect(connection).toMatchObject({ kind: 'unix', path, preamble: Buffer.alloc(0) });
    expect(await greeted(connection)).toBe('OK hello\n');
    expect(sockets).toHaveLength(1);
    expect(connection.socket.eventNames().filter((name) => name !== 'end')).toEqual([]);
    const cause = new Error('why');
    expect(connection.earlyCloseError(cause)).toMatchObject({ code: 'AGENT_CLOSED', cause });
  });

  test('one that appears while waiting is connected to', async () => {
    const path = join(await tempDir(), 'S');
    let started: Promise<unknown> | undefined;
    const { socketFactory } = countingFactory((count) => {
      if (count === 3) started = unixServer(path);
    });
    expect(await greeted(await connect(path, { timeoutMs: 30_000, socketFactory }))).toBe('OK hello\n');
    await started;
  });

  test('one whose dead file is replaced while waiting is connected to', async () => {
    const dir = await tempDir();
    const [path, fresh] = [join(dir, 'S'), join(dir, 'T')];
    await deadSocket(path);
    let started: Promise<unknown> | undefined;
    const { socketFactory } = countingFactory((count) => {
      if (count === 3) started = unixServer(fresh).then(() => rename(fresh, path));
    });
    expect(await greeted(await connect(path, { timeoutMs: 30_000, socketFactory }))).toBe('OK hello\n');
    await started;
  });

  test('a missing and a dead one are told apart, with and without waiting', async () => {
    const dir = await tempDir();
    await deadSocket(join(dir, 'dead'));
    for (const options of [{ timeoutMs: 1_000 }, { waitForStart: false }]) {
      const { sockets, socketFactory } = countingFactory();
      const missing = await failure(connectToAgent(join(dir, 'missing'), { ...options, socketFactory }));
      expect(missing).toMatchObject({ code: 'AGENT_SOCKET_MISSING', exitStatus: 4 });
      const dead = await failure(connectToAgent(join(dir, 'dead'), { ...options, socketFactory }));
      expect(dead).toMatchObject({ code: 'AGENT_UNREACHABLE', why: 'nothing listens there any more' });
      if ('timeoutMs' in options) expect(sockets.length).toBeGreaterThan(2);
      else expect(sockets).toHaveLength(2);
      expect(sockets.every((socket) => socket.destroyed)).toBe(true);
    }
  });

  test('what will not pass by itself is said at once', async () => {
    const dir = await tempDir();
    await writeFile(join(dir, 'file'), '');
    await mkdir(join(dir, 'directory'));
    const { sockets, socketFactory } = countingFactory();
    const options = { socketFactory };
    expect(await failure(connectToAgent(join(dir, 'file', 'S'), options))).toMatchObject({
      code: 'AGENT_SOCKET_MISSING',
    });
    expect(await failure(connectToAgent(join(dir, 'directory'), options))).toMatchObject({
      code: 'AGENT_SOCKET_FILE_MALFORMED',
      why: 'it is neither a socket nor a file',
    });
    await symlink('loop', join(dir, 'loop'));
    expect(await failure(connectToAgent(join(dir, 'loop'), options))).toMatchObject({
      code: 'AGENT_UNREACHABLE',
      why: expect.stringContaining('ELOOP'),
    });
    expect(sockets).toHaveLength(3);
  });

  test.each([
    ['EACCES', 'this user may not use it'],
    ['EPERM', 'this user may not use it'],
  ])('%s is said to be about the user', async (code, why) => {
    // Root may use everything, so this can't be had for real where tests run as root.
    const socketFactory = () => {
      const socket = new net.Socket();
      process.nextTick(() => socket.destroy(Object.assign(new Error(code), { code })));
      return socket;
    };
    const error = await failure(connectToAgent('/some/S', { socketFactory }));
    expect(error).toMatchObject({ code: 'AGENT_UNREACHABLE', why });
  });

  test('the caller can give up, before and while it waits', async () => {
    const path = join(await tempDir(), 'S');
    const controller = new AbortController();
    const { sockets, socketFactory } = countingFactory((count) => {
      if (count === 3) controller.abort();
    });
    const options = { signal: controller.signal, socketFactory, timeoutMs: 60_000 };
    await expect(connectToAgent(path, options)).rejects.toMatchObject({ name: 'AbortError' });
    await expect(connectToAgent(path, options)).rejects.toMatchObject({ name: 'AbortError' });
    expect(sockets).toHaveLength(3);
  });
});

describe('redirects', () => {
  test('lead to another socket, once', async () => {
    const dir = await tempDir();
    const redirect = (name: string) => `%Assuan%\nsocket=\${PLACE}${name}\n`;
    await unixServer(join(dir, 'S'));
    await writeFile(join(dir, 'first'), redirect('/S'));
    await writeFile(join(dir, 'second'), redirect('/first'));
    const env = { PLACE: dir };
    const connection = await connect(join(dir, 'first'), { env });
    expect(connection).toMatchObject({ kind: 'unix', path: join(dir, 'first') });
    expect(await greeted(connection)).toBe('OK hello\n');
    const error = await failure(connectToAgent(join(dir, 'second'), { env, waitForStart: false }));
    expect(error.code).toBe('AGENT_UNREACHABLE');
    expect(error.what).toContain(join(dir, 'first'));
  });

  test('are an error on Windows', async () => {
    const path = join(await tempDir(), 'S');
    await writeFile(path, '%Assuan%\nsocket=/a\n');
    const error = await failure(connectToAgent(path, { platform: 'win32' }));
    expect(error).toMatchObject({
      code: 'AGENT_SOCKET_FILE_MALFORMED',
      why: expect.stringContaining('Unix'),
    });
  });
});

describe.each(['linux', 'win32'] as const)('socket files on %s', (platform) => {
  test('the nonce is what has to be written first', async () => {
    const path = join(await tempDir(), 'S');
    const agent = await TcpAgent.start({ nonce, restricted: true });
    await agent.writeFile(path);
    const connection = await connect(path, { platform });
    expect(connection).toMatchObject({ kind: 'windows', path, preamble: nonce });
    connection.socket.write(connection.preamble);
    const { responses } = await ask(connection.socket, ['GETINFO restricted'], { timeoutMs: 30_000 });
    expect(responses[0]?.bytes.toString()).toBe('OK\n');
  });

  test('three lines, the first a loopback host', async () => {
    const path = join(await tempDir(), 'S');
    const agent = await TcpAgent.start({ nonce });
    await writeFile(path, Buffer.concat([Buffer.from(`localhost\n${agent.port}\n`), nonce]));
    expect(await greeted(await connect(path, { platform }))).toBe('OK Pleased to meet you, process 1\n');
  });

  test.each(['cygwin8', 'cygwin12'] as const)('Cygwin (%s)', async (form) => {
    const path = join(await tempDir(), 'S');
    const agent = await TcpAgent.start({ nonce, form });
    await agent.writeFile(path);
    const connection = await connect(path, { platform, timeoutMs: 30_000 });
    expect(connection).toMatchObject({ kind: 'cygwin', preamble: Buffer.alloc(0) });
    expect(await greeted(connection)).toBe('OK Pleased to meet you, process 1\n');
  });

  test('the file is read afresh for every connection', async () => {
    const path = join(await tempDir(), 'S');
    for (const ownNonce of [nonce, randomBytes(16)]) {
      const agent = await TcpAgent.start({ nonce: ownNonce });
      await agent.writeFile(path);
      expect(await greeted(await connect(path, { platform }))).toMatch(/^OK/);
      await agent.stop();
    }
  });

  test('an agent that starts: no file, an empty one, half of one, a port that refuses, then all of it', async () => {
    const path = join(await tempDir(), 'S');
    const placeholder = await TcpAgent.start({ nonce });
    const { port } = placeholder;
    await placeholder.stop();
    const half = Buffer.from(`${port}\n`);
    const whole = Buffer.concat([half, nonce]);
    // Each look at the file finds the next step done; the port opens when it was refused once.
    const steps = ['ENOENT', Buffer.alloc(0), Buffer.alloc(0), half, whole];
    const fileSystem = {
      async read() {
        const step = steps.length > 1 ? steps.shift()! : steps[0]!;
        if (typeof step === 'string') throw Object.assign(new Error(step), { code: step });
        return step;
      },
    };
    let agent: Promise<TcpAgent> | undefined;
    const socketFactory = (options: net.NetConnectOpts) => {
      if (!('port' in options)) return net.connect('/dev/null'); // a file refuses
      const socket = net.connect(options);
      socket.once('error', () => (agent ??= TcpAgent.start({ nonce, port })));
      return socket;
    };
    const connection = await connect(path, { platform, fileSystem, socketFactory, timeoutMs: 30_000 });
    expect(await greeted(connection)).toMatch(/^OK/);
    expect((await agent)?.connections).toBe(1);
  });

  test.each([
    ['it is empty', Buffer.alloc(0)],
    ['its nonce has 15 bytes instead of 16', Buffer.concat([Buffer.from('1\n'), nonce.subarray(1)])],
    ['its first line has no line end', Buffer.from('52431')],
    ['it is longer than 4096 bytes', Buffer.alloc(10_000, nonce)],
  ])('one that stays malformed: %s', async (why, content) => {
    const path = join(await tempDir(), 'S');
    await writeFile(path, content);
    const error = await failure(connectToAgent(path, { platform, ...QUICKLY }));
    expect(error).toMatchObject({ code: 'AGENT_SOCKET_FILE_MALFORMED', why });
    expect(error.message).toContain(path);
    expectNoSecret(nonce, error);
  });

  test('a port that nobody listens on any more', async () => {
    const path = join(await tempDir(), 'S');
    const agent = await TcpAgent.start({ nonce });
    // The port of a client's end is in use and refuses: one that was only freed may be somebody else's by now.
    const client = net.connect(agent.port, '127.0.0.1');
    onTestFinished(() => void client.destroy());
    await once(client, 'connect');
    const port = client.localPort!;
    await agent.writeFile(path, { port });
    const error = await failure(connectToAgent(path, { platform, waitForStart: false }));
    expect(error.code).toBe('AGENT_UNREACHABLE');
    expect(error.what).toBe(`can't connect to the agent at ${path} (port ${port})`);
    expectNoSecret(nonce, error);
  });

  test.each(['fin', 'reset'] as const)(
    'a nonce that is refused (%s) is said as such',
    async (onWrongNonce) => {
      const path = join(await tempDir(), 'S');
      const agent = await TcpAgent.start({ nonce: randomBytes(16), onWrongNonce });
      await agent.writeFile(path, { nonce });
      const connection = await connect(path, { platform });
      connection.socket.write(connection.preamble);
      const { earlyCloseError } = connection;
      const error = await failure(ask(connection.socket, ['NOP'], { timeoutMs: 30_000, earlyCloseError }));
      expect(error).toMatchObject({ code: 'AGENT_NONCE_REFUSED', why: expect.stringContaining('nonce') });
      expect(error.message).toContain(path);
      if (onWrongNonce === 'reset') expect(error.cause).toMatchObject({ code: 'ECONNRESET' });
      expectNoSecret(nonce, error);
    },
  );

  test.each([
    ['closes', { nonce: randomBytes(16) }, 'AGENT_NONCE_REFUSED'],
    ['resets', { nonce: randomBytes(16), onWrongNonce: 'reset' }, 'AGENT_NONCE_REFUSED'],
    ['answers with another nonce', { nonce, echo: randomBytes(16) }, 'AGENT_NONCE_REFUSED'],
    ['gives half a nonce and then nothing', { nonce, echo: nonce.subarray(8) }, 'AGENT_CONNECT_TIMEOUT'],
  ] as const)('a Cygwin agent that %s', async (_, options, code) => {
    const path = join(await tempDir(), 'S');
    const agent = await TcpAgent.start({ form: 'cygwin8', ...options });
    await agent.writeFile(path, { nonce });
    const { sockets, socketFactory } = countingFactory();
    const timeoutMs = code === 'AGENT_CONNECT_TIMEOUT' ? 200 : 30_000;
    const error = await failure(connectToAgent(path, { platform, socketFactory, timeoutMs }));
    expect(error.code).toBe(code);
    expect(sockets.every((socket) => socket.destroyed)).toBe(true);
    expectNoSecret(nonce, error);
  });
});

test('an agent that waits for the rest of a short nonce is silent and is not taken for closed', async () => {
  const path = join(await tempDir(), 'S');
  const agent = await TcpAgent.start({ nonce });
  await agent.writeFile(path);
  const { socket, preamble, earlyCloseError } = await connect(path);
  socket.write(preamble.subarray(0, 15));
  const silent = await failure(ask(socket, [], { timeoutMs: 100, earlyCloseError }));
  expect(silent.code).toBe('AGENT_GREETING_TIMEOUT');
  expectNoSecret(nonce, silent);
  socket.write(preamble.subarray(15));
  await once(socket, 'data');
});

test('a pipe is connected to by its name', async () => {
  const path = join(await tempDir(), 'S');
  await unixServer(path);
  const asked: unknown[] = [];
  const socketFactory = (options: net.NetConnectOpts) => {
    asked.push(options);
    return net.connect({ path }); // there are no pipes here to connect to
  };
  for (const pipe of ['\\\\.\\pipe\\openssh-ssh-agent', '//./pipe/agent']) {
    const connection = await connect(pipe, { platform: 'win32', socketFactory });
    expect(connection).toMatchObject({ kind: 'pipe', path: pipe });
    expect(asked.pop()).toEqual({ path: pipe });
  }
});

/** Leaves a socket file behind that nobody listens on, as a killed agent does. */
async function deadSocket(path: string): Promise<void> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(`${path}.tmp`, resolve));
  await rename(`${path}.tmp`, path); // Node removes the old name on close
  await new Promise((resolve) => server.close(resolve));
  await rm(`${path}.tmp`, { force: true });
}
