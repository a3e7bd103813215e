import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { failure } from '@gpg-bridge/test-support/failure';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { untilNobodyListens } from '@gpg-bridge/test-support/listening';
import { run, runOk, stopProcess } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { TcpAgent } from '@gpg-bridge/test-support/tcp-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test } from 'vitest';
import { ask } from '../assuan/ask.ts';
import { tellableIdentity } from '../fs/socket-identity.ts';
import type { AgentConnection } from './connect.ts';
import { HostGpgAgent, type HostGpgAgentOptions } from './gpg-agent.ts';
import type { OpenedAgent } from './open-agent.ts';

/** No test waits this long unless something is wrong; a busy machine may be slow. */
const PATIENT = { connectTimeoutMs: 30_000, greetingTimeoutMs: 30_000 };

async function home(agentConf?: string): Promise<GnupgHome> {
  const created = await GnupgHome.create(agentConf);
  onTestFinished(() => created.remove());
  return created;
}

async function pidOf({ env }: GnupgHome): Promise<number | undefined> {
  const { stdout } = await run('gpg-connect-agent', ['--no-autostart', 'GETINFO pid', '/bye'], { env });
  const pid = /^D (\d+)$/m.exec(stdout.toString())?.[1];
  return pid === undefined ? undefined : Number(pid);
}

/** Ends an agent, so that it can clean up or can't, and returns when it is gone. */
async function end(gnupg: GnupgHome, how: 'ended' | 'killed'): Promise<void> {
  const path = await gnupg.socket('agent-extra-socket');
  if (how === 'ended') await gnupg.killAgent();
  else process.kill((await pidOf(gnupg))!, 'SIGKILL');
  await untilNobodyListens(path);
}

async function connect(agent: HostGpgAgent): Promise<AgentConnection> {
  const connection = await agent.connect();
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

async function answer({ socket, preamble }: AgentConnection, command: string): Promise<string> {
  socket.write(preamble);
  const { responses } = await ask(socket, [command], { timeoutMs: 30_000 });
  return responses[0]!.bytes.toString('latin1');
}

/** A directory whose gpgconf writes down what it was asked before it does it. */
async function recordingGpgconf(): Promise<{ gpgBinDir: string; asked: () => Promise<string[]> }> {
  const gpgBinDir = await tempDir();
  const real = (await runOk('sh', ['-c', 'command -v gpgconf'])).trim();
  const record = join(gpgBinDir, 'asked');
  await writeFile(record, '');
  await writeScript(gpgBinDir, 'gpgconf', `echo "$*" >>'${record}'; exec '${real}' "$@"`);
  return { gpgBinDir, asked: async () => (await readFile(record, 'utf8')).split('\n').slice(0, -1) };
}

/** An agent with its log, the sockets it made, and a way to wait for the next of them. */
function agentFor(options: HostGpgAgentOptions) {
  const log: string[] = [];
  const sockets: net.Socket[] = [];
  const made = new EventEmitter();
  const agent = new HostGpgAgent({
    ...PATIENT,
    socketFactory: (to: net.NetConnectOpts) => {
      sockets.push(net.connect(to));
      made.emit('socket');
      return sockets.at(-1)!;
    },
    log: (message, level) => log.push(`${level} ${message}`),
    ...options,
  });
  const nextSocket = () => once(made, 'socket');
  return { agent, log, sockets, nextSocket };
}

/** What an agent says up to the end of a line, which it may write by itself. */
async function firstLine(socket: net.Socket): Promise<string> {
  let said = '';
  while (!said.endsWith('\n')) said += String((await once(socket, 'data'))[0]);
  return said;
}

test('starts the agent when it is not there, and connects to its restricted socket', async () => {
  const gnupg = await home();
  const { agent, log } = agentFor({ env: gnupg.env });
  expect(await pidOf(gnupg)).toBeUndefined();
  const connection = await connect(agent);
  expect(connection).toMatchObject({ kind: 'unix', path: await gnupg.socket('agent-extra-socket') });
  expect(await answer(connection, 'GETINFO restricted')).toBe('OK\n');
  expect(await pidOf(gnupg)).toBeGreaterThan(0);
  expect(log).toEqual([
    `info no gpg-agent at ${connection.path}: starting it`,
    `debug gpg-agent at ${connection.path} is restricted, as it should be`,
  ]);
});

test('asks gpgconf once, checks once, and then only connects', async () => {
  const gnupg = await home();
  await gnupg.launchAgent();
  const { gpgBinDir, asked } = await recordingGpgconf();
  const { agent, sockets } = agentFor({ env: { ...gnupg.env, PATH: '/usr/bin:/bin' }, gpgBinDir });
  await Promise.all(Array.from({ length: 5 }, () => connect(agent)));
  await connect(agent);
  expect(await asked()).toEqual(['--list-dirs agent-extra-socket']);
  expect(sockets).toHaveLength(1 + 6);
});

test('connections that miss the agent together start it once', async () => {
  const gnupg = await home();
  const { gpgBinDir, asked } = await recordingGpgconf();
  const { agent } = agentFor({ env: gnupg.env, gpgBinDir });
  await connect(agent);
  await end(gnupg, 'killed');
  await rm(await gnupg.socket('agent-extra-socket'), { force: true });
  const before = (await asked()).length;
  await Promise.all(Array.from({ length: 5 }, () => connect(agent)));
  expect((await asked()).slice(before)).toEqual(['--list-dirs agent-extra-socket', '--launch gpg-agent']);
});

test.each(['ended', 'killed'] as const)(
  'an agent that was %s is started again by the next connection',
  async (how) => {
    const gnupg = await home();
    const { agent } = agentFor({ env: gnupg.env });
    // An agent that was told to end serves on while a connection is open.
    (await connect(agent)).socket.destroy();
    const first = await pidOf(gnupg);
    await end(gnupg, how);
    expect(await answer(await connect(agent), 'GETINFO restricted')).toBe('OK\n');
    const second = await pidOf(gnupg);
    expect(second).toBeGreaterThan(0);
    expect(second).not.toBe(first);
  },
);

/** An agent that is not restricted at the path of a restricted one: it writes down what it is sent. */
async function listenUnrestricted(path: string): Promise<{ received: () => string }> {
  let received = '';
  const server = net.createServer((peer) => {
    peer.on('error', () => {}).write('OK Pleased to meet you\n');
    peer.on('data', (chunk) => {
      received += chunk.toString('latin1');
      peer.write('ERR 67108888 False <GPG Agent>\n');
    });
  });
  await rm(path, { force: true });
  server.listen(path);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { received: () => received };
}

test.each(['connect', 'open'] as const)(
  'an agent that was started again is asked anew whether it is restricted (%s)',
  async (way) => {
    const gnupg = await home();
    const { agent } = agentFor({ env: gnupg.env });
    const use = async () =>
      way === 'connect' ? (await connect(agent)).socket.destroy() : (await open(agent)).socket.destroy();
    await use();
    await use();
    const path = await gnupg.socket('agent-extra-socket');
    await end(gnupg, 'ended');
    const { received } = await listenUnrestricted(path);
    expect(await failure(use())).toMatchObject({ code: 'AGENT_NOT_RESTRICTED' });
    expect(received()).toBe('GETINFO restricted\n');
    // The restricted one is used as soon as it is back.
    await rm(path);
    await gnupg.launchAgent();
    await use();
  },
);

function open(agent: HostGpgAgent): Promise<OpenedAgent> {
  return new Promise((resolve, reject) =>
    agent.open({
      opened(opened) {
        onTestFinished(() => void opened.socket.destroy());
        resolve(opened);
      },
      failed: reject,
    }),
  );
}

test('opens connections that have greeted, from the second on with one socket and nothing else', async () => {
  const gnupg = await home();
  const { gpgBinDir, asked } = await recordingGpgconf();
  const { agent, sockets } = agentFor({ env: gnupg.env, gpgBinDir });
  await open(agent);
  const before = { sockets: sockets.length, asked: await asked() };
  const { greeting, socket } = await open(agent);
  expect(greeting.toString()).toMatch(/^OK Pleased to meet you[^\n]*\n$/);
  expect(sockets.slice(before.sockets)).toEqual([socket]);
  expect(await asked()).toEqual(before.asked);
});

test('a socket that was made before serves one connection, also one that finds the agent gone', async () => {
  const gnupg = await home();
  const agent = new HostGpgAgent({ ...PATIENT, env: gnupg.env });
  (await open(agent)).socket.destroy();
  agent.prepare();
  agent.prepare();
  const both = await Promise.all([open(agent), open(agent)]);
  expect(both[0].socket).not.toBe(both[1].socket);
  for (const { socket } of both) {
    socket.write('GETINFO restricted\n');
    expect(await firstLine(socket)).toBe('OK\n');
    socket.destroy();
  }
  agent.prepare();
  await end(gnupg, 'killed');
  const { socket } = await open(agent);
  socket.write('GETINFO restricted\n');
  expect(await firstLine(socket)).toBe('OK\n');
});

test('asks what whoever opens a connection asks, with its own questions and before the greeting', async () => {
  const { env } = await home();
  const { agent, sockets } = agentFor({ env });
  const lines = [`HAVEKEY ${'0'.repeat(40)}`, 'GETINFO pid', 'RESET'];
  const questions = { bytes: Buffer.from(lines.map((line) => `${line}\n`).join('')), count: lines.length };
  const answersOf = async () => {
    const { answers, greeting, socket } = await new Promise<OpenedAgent>((opened, failed) =>
      agent.open({ opened, failed }, undefined, questions),
    );
    expect(greeting.toString()).toMatch(/^OK [^\n]*\n$/);
    // The connection is the caller's, and nothing is left on it.
    socket.write('GETINFO restricted\n');
    expect(await firstLine(socket)).toBe('OK\n');
    socket.destroy();
    return answers?.map(({ bytes }) => bytes.toString());
  };
  // The first has to find the agent, and asks nothing more; those after it connect at once.
  expect(await answersOf()).toEqual([]);
  const expected = [
    expect.stringMatching(/^ERR 67108881 /),
    expect.stringMatching(/^(?:ERR 67109115 |D \d+\nOK\n)/),
    'OK\n',
  ];
  const before = sockets.length;
  for (const _time of [1, 2, 3]) expect(await answersOf()).toEqual(expected);
  expect(sockets.length - before).toBe(3);
});

test('an agent that takes long for a question of others is opened without, and not given up', async () => {
  const path = join(await tempDir(), 'S.gpg-agent.extra');
  const asked: string[] = [];
  const server = net.createServer((socket) => {
    socket.write('OK hello\n');
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        for (const line of bytes.toString().split('\n').slice(0, -1)) {
          asked.push(line);
          if (line === 'GETINFO version') socket.write('D 2.4.7\n');
          if (!line.startsWith('HAVEKEY')) socket.write('OK\n'); // as while another client's card waits for a touch
        }
      });
  });
  onTestFinished(() => void server.close());
  server.listen(path);
  await once(server, 'listening');
  const { agent } = agentFor({ socketPath: path });
  const questions = { bytes: Buffer.from('HAVEKEY --list\n'), count: 1 };
  const open = () =>
    new Promise<OpenedAgent>((opened, failed) => agent.open({ opened, failed }, undefined, questions));
  (await open()).socket.destroy();
  asked.length = 0;
  const { socket, answers } = await open();
  socket.destroy();
  expect(answers).toEqual([]);
  const introduction = ['GETINFO restricted', 'GETINFO version'];
  expect(asked).toEqual([...introduction, 'HAVEKEY --list', ...introduction]);
});

test('tells a greeting from the answers behind it, wherever they are cut', async () => {
  const socketPath = join(await tempDir(), 's');
  const [greeting, answers] = ['# hello\nOK Pleased\n', 'OK\nD 2.4.7\nOK\n'];
  const said = greeting + answers;
  let at = -1; // as an agent would; then at once, cut at every byte
  const questions: string[] = [];
  const server = net
    .createServer((socket) => {
      let asked = '';
      socket.on('error', () => {}).on('close', () => questions.push(asked));
      socket.on('data', (bytes) => {
        asked += bytes;
        if (at < 0) socket.write(asked.endsWith('version\n') ? answers : 'OK\n');
      });
      if (at < 0) {
        socket.write(greeting);
        return;
      }
      socket.write(said.slice(0, at), () => setImmediate(() => socket.write(said.slice(at))));
    })
    .listen(socketPath);
  onTestFinished(() => void server.close());
  const { agent } = agentFor({ socketPath });
  (await open(agent)).socket.destroy();
  for (at = 1; at <= said.length; at++) {
    const opened = await open(agent);
    expect(opened.greeting.toString()).toBe(greeting);
    expect(opened.identity?.version).toBe('D 2.4.7\nOK\n');
    const closed = once(opened.socket, 'close');
    opened.socket.destroy();
    await closed;
  }
  await expect.poll(() => questions).toHaveLength(2 + said.length);
  expect(new Set(questions.slice(1))).toEqual(new Set(['GETINFO restricted\nGETINFO version\n']));
});

test.each(['ended', 'killed'] as const)(
  'opens one to an agent that was %s, which is started',
  async (how) => {
    const gnupg = await home();
    const { agent, sockets } = agentFor({ env: gnupg.env });
    for (const { socket } of [await open(agent), await open(agent)]) socket.destroy();
    await end(gnupg, how);
    const { greeting } = await open(agent);
    expect(greeting.toString()).toMatch(/^OK /);
    expect(sockets.filter(({ destroyed }) => !destroyed)).toHaveLength(1);
  },
);

test('refuses the main socket, which is not restricted, and leaves it as it was', async () => {
  const gnupg = await home();
  await gnupg.launchAgent();
  const pid = await pidOf(gnupg);
  const socketPath = await gnupg.socket('agent-socket');
  const { agent, sockets } = agentFor({ env: gnupg.env, socketPath });
  for (const _ of [1, 2]) {
    const error = await failure(agent.connect());
    expect(error).toMatchObject({ code: 'AGENT_NOT_RESTRICTED', exitStatus: 4 });
    expect(error.message).toContain(socketPath);
  }
  expect(sockets.every((socket) => socket.destroyed)).toBe(true);
  expect(await pidOf(gnupg)).toBe(pid);
});

test('says what may be behind a missing socket', async () => {
  const gnupg = await home('extra-socket none\n');
  const { agent } = agentFor({ env: gnupg.env, connectTimeoutMs: 200 });
  const error = await failure(agent.connect());
  expect(error).toMatchObject({ code: 'AGENT_SOCKET_MISSING', exitStatus: 4 });
  expect(error.message).toContain(await gnupg.socket('agent-extra-socket'));
  expect(error.message).toContain('`extra-socket none` or another path');
});

test('finds the socket where gpg-agent.conf puts it, and again where it moves to', async () => {
  const gnupg = await home();
  const write = (line: string) => writeFile(join(gnupg.dir, 'gpg-agent.conf'), `# mine\n${line}\n`);
  const dir = await tempDir();
  await write(`extra-socket ${join(dir, 'S')}`);
  const { agent } = agentFor({ env: gnupg.env });
  let before = (await connect(agent)).path;
  expect(before).toBe(join(dir, 'S'));
  for (const [line, path] of [
    ['extra-socket "~/E"', join(gnupg.env.HOME!, 'E')],
    ['# extra-socket /nowhere', await gnupg.socket('agent-extra-socket')],
  ] as const) {
    await end(gnupg, 'killed');
    await untilNobodyListens(before);
    await write(line);
    before = (await connect(agent)).path;
    expect(before).toBe(path);
  }
});

test('a place that changes between two starts is found, and checked again', async () => {
  const [one, two] = [await home(), await home()];
  const gpgBinDir = await tempDir();
  const useHome = (gnupg: GnupgHome) =>
    writeScript(gpgBinDir, 'gpgconf', `GNUPGHOME='${gnupg.dir}' exec /usr/bin/gpgconf "$@"`);
  await useHome(one);
  const { agent, log } = agentFor({ env: one.env, gpgBinDir });
  await connect(agent);
  await useHome(two);
  await end(one, 'ended');
  const path = await two.socket('agent-extra-socket');
  expect((await connect(agent)).path).toBe(path);
  expect(log.filter((line) => line.includes('restricted'))).toHaveLength(2);
  expect(log.at(-1)).toContain(path);
});

test('no GnuPG here is an error of its own, and not kept: it may be installed', async () => {
  const gnupg = await home();
  const gpgBinDir = await tempDir();
  const { agent } = agentFor({ env: gnupg.env, gpgBinDir });
  expect(await failure(agent.connect())).toMatchObject({ code: 'GPGCONF_MISSING', exitStatus: 4 });
  await writeScript(gpgBinDir, 'gpgconf', 'exec /usr/bin/gpgconf "$@"');
  expect(await answer(await connect(agent), 'GETINFO restricted')).toBe('OK\n');
});

test('with a path of its own and no GnuPG, the error is about that path', async () => {
  const gpgBinDir = await tempDir();
  const socketPath = join(gpgBinDir, 'S');
  const { agent, log } = agentFor({ gpgBinDir, socketPath, connectTimeoutMs: 50 });
  const error = await failure(agent.connect());
  expect(error.code).toBe('AGENT_SOCKET_MISSING');
  expect(error.message).toContain(socketPath);
  expect(log.join('\n')).toContain('the agent was not started');
});

test('300 connections at once all get their greeting', async () => {
  const gnupg = await home();
  const { agent } = agentFor({ env: gnupg.env });
  const connections = await Promise.all(Array.from({ length: 300 }, () => connect(agent)));
  const answers = await Promise.all(connections.map((each) => answer(each, 'GETINFO restricted')));
  expect(new Set(answers)).toEqual(new Set(['OK\n']));
});

test('a full backlog is waited out', async () => {
  const gnupg = await home();
  const { agent, nextSocket } = agentFor({ env: gnupg.env });
  const { path } = await connect(agent);
  const pid = (await pidOf(gnupg))!;
  await stopProcess(pid);
  onTestFinished(() => {
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // it has ended since
    }
  });
  await fillBacklog(path);
  const impatient = agentFor({ env: gnupg.env, socketPath: path, connectTimeoutMs: 100 });
  expect(await failure(impatient.agent.connect())).toMatchObject({
    code: 'AGENT_CONNECT_TIMEOUT',
    why: 'its queue of connections stayed full',
  });
  const connecting = connect(agent);
  for (let attempt = 1; attempt <= 3; attempt++) await nextSocket();
  process.kill(pid, 'SIGCONT');
  expect(await answer(await connecting, 'GETINFO restricted')).toBe('OK\n');
});

test('knows its sockets by what they are, main and extra', async () => {
  const gnupg = await home();
  const { agent } = agentFor({ env: gnupg.env });
  expect(await agent.identities()).toEqual([]);
  await connect(agent);
  expect(await agent.identities()).toEqual([
    await tellableIdentity(await gnupg.socket('agent-socket')),
    await tellableIdentity(await gnupg.socket('agent-extra-socket')),
  ]);
});

test.each(['AGENT_GREETING_TIMEOUT', 'BAD_GREETING', 'AGENT_CLOSED'])(
  'what is no agent at all is not bridged: %s',
  async (code) => {
    const path = join(await tempDir(), 'S');
    const open: net.Socket[] = [];
    const server = net.createServer((socket) => {
      open.push(socket.on('error', () => {}));
      if (code === 'BAD_GREETING') socket.write('ERR 67108941 No agent running\n');
      if (code === 'AGENT_CLOSED') socket.end();
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    onTestFinished(() => {
      for (const socket of open) socket.destroy();
      server.close();
    });
    const { agent } = agentFor({
      socketPath: path,
      greetingTimeoutMs: code === 'AGENT_GREETING_TIMEOUT' ? 50 : 30_000,
    });
    expect((await failure(agent.connect())).code).toBe(code);
  },
);

/** A gpgconf for a Windows-like home: it names one path, and `--launch` runs what the test says. */
async function windowsHome(): Promise<{
  path: string;
  gpgBinDir: string;
  onLaunch(command: string): Promise<void>;
}> {
  const gpgBinDir = await tempDir();
  const path = join(gpgBinDir, 'home', 'S.gpg-agent.extra');
  await mkdir(join(gpgBinDir, 'home'));
  const onLaunch = async (command: string) => {
    const body = `case $1 in --list-dirs) printf '%s\\r\\n' '${path}' ;; --launch) ${command} ;; esac`;
    await writeScript(gpgBinDir, 'gpgconf', body);
  };
  await onLaunch('true');
  return { path, gpgBinDir, onLaunch };
}

test.each(['linux', 'win32'] as const)('the Windows form, checked and bridged on %s', async (platform) => {
  const nonce = randomBytes(16);
  const path = join(await tempDir(), 'S.gpg-agent.extra');
  const double = await TcpAgent.start({ nonce, restricted: true });
  await double.writeFile(path);
  const { agent, log } = agentFor({ socketPath: path, platform });
  const connection = await connect(agent);
  expect(connection.kind).toBe('windows');
  expect(await answer(connection, 'HAVEKEY')).toBe('OK\n');
  expect(double.commands).toEqual(['GETINFO restricted', 'HAVEKEY']);
  expectNoSecret(nonce, ...log);
});

test('the Windows form of an unrestricted socket is refused', async () => {
  const { path, gpgBinDir } = await windowsHome();
  const double = await TcpAgent.start({ nonce: randomBytes(16), restricted: false });
  await double.writeFile(path);
  const { agent } = agentFor({ gpgBinDir });
  expect((await failure(agent.connect())).code).toBe('AGENT_NOT_RESTRICTED');
});

test.each(['fin', 'reset'] as const)(
  'a port that went to another program (%s): the agent is started, and said so when that does not help',
  async (onWrongNonce) => {
    const nonce = randomBytes(16);
    const { path, gpgBinDir, onLaunch } = await windowsHome();
    const stranger = await TcpAgent.start({ nonce: randomBytes(16), onWrongNonce });
    await stranger.writeFile(path, { nonce });
    const { agent, log } = agentFor({ gpgBinDir });
    const error = await failure(agent.connect());
    expect(error.code).toBe('AGENT_NONCE_REFUSED');
    expect(stranger.connections).toBe(2);

    const started = await TcpAgent.start({ nonce, restricted: true });
    const fresh = join(gpgBinDir, 'fresh');
    await started.writeFile(fresh);
    await onLaunch(`cp '${fresh}' '${path}'`);
    expect(await answer(await connect(agent), 'NOP')).toBe('OK\n');
    expect(stranger.connections).toBe(2);
    expectNoSecret(nonce, error, ...log);
  },
);

test('an agent that was replaced after the check is started again once its nonce was refused', async () => {
  const nonce = randomBytes(16);
  const { path, gpgBinDir, onLaunch } = await windowsHome();
  const first = await TcpAgent.start({ nonce, restricted: true });
  await first.writeFile(path);
  const { agent, log } = agentFor({ gpgBinDir });
  await connect(agent);
  const stranger = await TcpAgent.start({ nonce: randomBytes(16) });
  await first.writeFile(path, { port: stranger.port });
  const error = await failure(connect(agent));
  expect(error.code).toBe('AGENT_NONCE_REFUSED');

  const fresh = join(gpgBinDir, 'fresh');
  await first.writeFile(fresh);
  await onLaunch(`cp '${fresh}' '${path}'`);
  expect(await answer(await connect(agent), 'NOP')).toBe('OK\n');
  expectNoSecret(nonce, error, ...log);
});

/** Connects to a stopped agent until the kernel says that its queue is full. */
async function fillBacklog(path: string): Promise<void> {
  for (;;) {
    const socket = net.connect(path);
    onTestFinished(() => void socket.destroy());
    const full = await new Promise<boolean>((resolve, reject) => {
      socket.once('connect', () => resolve(false));
      socket.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'EAGAIN' ? resolve(true) : reject(error),
      );
    });
    if (full) return;
  }
}
