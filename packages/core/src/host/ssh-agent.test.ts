import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, symlinkSync } from 'node:fs';
import { readFile, rm, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { crashAgent } from '@gpg-bridge/test-support/agent-processes';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { untilNobodyListens } from '@gpg-bridge/test-support/listening';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test } from 'vitest';
import type { AgentConnection } from './connect.ts';
import { HostSshAgent, type HostSshAgentOptions } from './ssh-agent.ts';

const PATIENT = { connectTimeoutMs: 30_000 };

/** A real ssh-agent in the foreground, ended with the test. */
async function sshAgent(): Promise<string> {
  const path = join(await tempDir(), 'agent');
  const child = spawn('ssh-agent', ['-D', '-a', path], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  });
  await once(child.stdout, 'data'); // it prints its variables once it listens
  return path;
}

async function connect(options: HostSshAgentOptions): Promise<AgentConnection> {
  const connection = await new HostSshAgent({ ...PATIENT, ...options }).connect();
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

/** Asks for the list of identities (11) and returns the answer, whole. */
async function listIdentities({
  socket,
  preamble,
}: Pick<AgentConnection, 'socket' | 'preamble'>): Promise<string> {
  socket.write(Buffer.concat([preamble, Buffer.from([0, 0, 0, 1, 11])]));
  const chunks: Buffer[] = [];
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer);
    const answer = Buffer.concat(chunks);
    if (answer.length >= 4 && answer.length === 4 + answer.readUInt32BE(0)) return answer.toString('hex');
  }
  throw new Error('the agent closed');
}

const NO_IDENTITIES = '000000050c00000000';

test('the agent of SSH_AUTH_SOCK', async () => {
  const path = await sshAgent();
  const env = { SSH_AUTH_SOCK: path };
  expect(await new HostSshAgent({ env }).socketPath()).toBe(path);
  const connection = await connect({ env });
  expect(connection).toMatchObject({ kind: 'unix', path });
  expect(await listIdentities(connection)).toBe(NO_IDENTITIES);
});

test("gpg-agent's own, which is started", async () => {
  const gnupg = await GnupgHome.create('enable-ssh-support\n');
  onTestFinished(() => gnupg.remove());
  const log: string[] = [];
  const options = { env: { ...gnupg.env, SSH_AUTH_SOCK: '/not/this' }, fromGpg: true };
  const connection = await connect({ ...options, log: (message) => log.push(message) });
  expect(connection.path).toBe(await gnupg.socket('agent-ssh-socket'));
  expect(await listIdentities(connection)).toBe(NO_IDENTITIES);
  expect(log).toEqual([`no gpg-agent at ${connection.path}: starting it`]);
  await crashAgent(gnupg);
  await untilNobodyListens(connection.path);
  expect(await listIdentities(await connect(options))).toBe(NO_IDENTITIES);
});

test('a gpg-agent without its ssh socket: what to put in gpg-agent.conf', async () => {
  const gpgBinDir = await tempDir();
  const path = join(gpgBinDir, 'S.gpg-agent.ssh');
  await writeScript(gpgBinDir, 'gpgconf', `[ "$1" = --launch ] || echo '${path}'`);
  const agent = new HostSshAgent({ gpgBinDir, fromGpg: true, connectTimeoutMs: 50 });
  await expect(agent.connect()).rejects.toMatchObject({
    code: 'SSH_AGENT_MISSING',
    what: expect.stringContaining(path),
    fix: expect.stringContaining('enable-ssh-support'),
  });
});

test('no agent is an error at once, with and without SSH_AUTH_SOCK', async () => {
  await expect(new HostSshAgent({ env: {}, platform: 'linux' }).connect()).rejects.toMatchObject({
    code: 'SSH_AGENT_MISSING',
    why: 'SSH_AUTH_SOCK is not set',
    exitStatus: 4,
  });
  const path = join(await tempDir(), 'gone');
  let attempts = 0;
  const socketFactory = (options: net.NetConnectOpts) => {
    attempts += 1;
    return net.connect(options);
  };
  await expect(
    new HostSshAgent({ env: { SSH_AUTH_SOCK: path }, socketFactory }).connect(),
  ).rejects.toMatchObject({ code: 'SSH_AGENT_MISSING', what: expect.stringContaining(path) });
  expect(attempts).toBe(1);
});

test('on Windows it is the pipe of OpenSSH, unless SSH_AUTH_SOCK says otherwise', async () => {
  const platform = 'win32';
  expect(await new HostSshAgent({ env: {}, platform }).socketPath()).toBe('\\\\.\\pipe\\openssh-ssh-agent');
  const env = { SSH_AUTH_SOCK: '\\\\.\\pipe\\mine' };
  expect(await new HostSshAgent({ env, platform }).socketPath()).toBe('\\\\.\\pipe\\mine');
});

test('a gpgconf that fails is asked again', async () => {
  const gpgBinDir = await tempDir();
  const agent = new HostSshAgent({ gpgBinDir, fromGpg: true });
  await expect(agent.socketPath()).rejects.toMatchObject({ code: 'GPGCONF_MISSING' });
  await writeScript(gpgBinDir, 'gpgconf', 'echo /some/S.gpg-agent.ssh');
  expect(await agent.socketPath()).toBe('/some/S.gpg-agent.ssh');
});

/** Asks over an opened connection for the list of keys; resolves to how many there are. */
async function countOfKeys(agent: HostSshAgent): Promise<number> {
  const { socket } = await agent.open();
  onTestFinished(() => void socket.destroy());
  return Number.parseInt((await listIdentities({ socket, preamble: Buffer.alloc(0) })).slice(10, 18), 16);
}

test('an agent that is busy with a person is told of the hop when it goes on', async () => {
  const dir = await tempDir();
  await runOk('mkfifo', [join(dir, 'asked'), join(dir, 'go')]);
  const askpass = await writeScript(dir, 'askpass', `echo > "${dir}/asked"; read -r _ < "${dir}/go"`);
  const real = await startSshAgent({
    env: { SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force', DISPLAY: ':9' },
  });
  const [asks, bound] = [await real.addKey('asks'), await real.addKey('bound')];
  const add = (...args: string[]) => runOk('ssh-add', ['-q', ...args], { env: real.env });
  await add('-d', asks);
  await add('-d', bound);
  await add('-c', asks);
  const knownHosts = join(dir, 'known_hosts');
  await writeFile(knownHosts, `far.example.org ${await readFile(`${bound}.pub`, 'utf8')}`);
  await add('-H', knownHosts, '-h', 'far.example.org', bound);
  const log: string[] = [];
  const agent = new HostSshAgent({ env: real.env, log: (message) => log.push(message) });
  expect(await countOfKeys(agent)).toBe(1);
  // It asks a person whether it may sign, and answers nobody meanwhile.
  const signing = run('ssh-keygen', ['-Y', 'sign', '-n', 'file', '-f', asks, join(dir, 'askpass')], {
    env: real.env,
  });
  await readFile(join(dir, 'asked'));
  const impatient = new HostSshAgent({ env: real.env, log: (message) => log.push(message) });
  await expect(impatient.open({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'AGENT_RESPONSE_TIMEOUT' });
  const counted = countOfKeys(agent);
  await writeFile(join(dir, 'go'), '\n');
  await signing;
  expect(await counted).toBe(1);
  expect(await countOfKeys(impatient)).toBe(1);
  expect(log).toEqual([]);
});

test('an agent that hangs up on being told is used without it, and another one in its place is told again', async () => {
  const path = join(await tempDir(), 'agent');
  const received: string[] = [];
  const listen = async (hangsUp: boolean) => {
    const server = net.createServer((socket) => {
      socket
        .on('error', () => {})
        .on('data', (bytes) => {
          const isBind = bytes.includes('session-bind');
          received.push(isBind ? 'bind' : 'list');
          if (isBind && hangsUp) socket.destroy();
          else socket.write(Buffer.from(isBind ? '0000000106' : NO_IDENTITIES, 'hex'));
        });
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    return server;
  };
  const log: string[] = [];
  const agent = new HostSshAgent({ env: { SSH_AUTH_SOCK: path }, log: (message) => log.push(message) });
  const old = await listen(true);
  expect([await countOfKeys(agent), await countOfKeys(agent)]).toEqual([0, 0]);
  expect(received).toEqual(['bind', 'bind', 'list', 'list']);
  expect(log).toEqual([expect.stringMatching(/hangs up on session-bind/)]);
  old.close();
  await rm(path, { force: true });
  const other = await listen(false);
  onTestFinished(() => void other.close());
  expect(await countOfKeys(agent)).toBe(0);
  expect(received.slice(4)).toEqual(['bind', 'list']);
});

test('an agent that comes in its place while one connects is told from it, and not used by its name', async () => {
  const [one, two] = [await sshAgent(), await sshAgent()];
  const link = join(await tempDir(), 'agent');
  await symlink(one, link);
  let leadsTo = two;
  let swaps = 1;
  const agent = new HostSshAgent({
    env: { SSH_AUTH_SOCK: link },
    socketFactory(to) {
      if (swaps-- > 0) {
        rmSync(link);
        symlinkSync(leadsTo, link);
        leadsTo = leadsTo === one ? two : one;
      }
      return net.connect(to);
    },
  });
  const connection = async () => {
    const { socket, place } = await agent.open();
    socket.destroy();
    return place;
  };
  expect(await connection()).toBe(await agent.place()); // it has connected once more
  swaps = Number.POSITIVE_INFINITY;
  expect(await connection()).toBeUndefined();
});

test('an agent that ends while it is asked ends no more than that', async () => {
  const path = join(await tempDir(), 'agent');
  const child = spawn('ssh-agent', ['-D', '-a', path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  child.kill('SIGSTOP'); // as one that asks a person, it takes nobody in
  const sockets: net.Socket[] = [];
  const socketFactory = (to: net.NetConnectOpts) => {
    const socket = net.connect(to);
    sockets.push(socket);
    return socket;
  };
  const asked = new HostSshAgent({ env: { SSH_AUTH_SOCK: path }, socketFactory }).offeredKeys();
  asked.catch(() => {});
  await expect.poll(() => sockets.length).toBe(2);
  child.kill('SIGKILL');
  await ended;
  await expect(asked).rejects.toMatchObject({ code: 'SSH_AGENT_MISSING' });
  expect(sockets.filter(({ destroyed }) => !destroyed)).toEqual([]);
});
