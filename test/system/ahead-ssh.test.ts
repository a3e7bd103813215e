import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { LIST_MESSAGE, SshMessage, SshMessageReader } from '@gpg-bridge/core/ssh/messages';
import { sessionBindMessage } from '@gpg-bridge/core/ssh/session-bind';
import { Person } from '@gpg-bridge/test-support/cli';
import { CrossingRelay } from '@gpg-bridge/test-support/crossing-relay';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent, type TestSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { signRequest, sshsigData } from '@gpg-bridge/test-support/ssh-requests';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it, onTestFinished } from 'vitest';

/** Somebody with a bridge to an ssh-agent, whose crossings are counted, and an sshd to log in to. */
async function bridged({
  socketPath,
  runtime = 'node',
  options = [] as string[],
  person: given,
}: BridgedOptions) {
  const person = given ?? (await Person.create({ key: false }));
  if (socketPath) person.env.SSH_AUTH_SOCK = socketPath;
  const target = await person.localHome();
  const relay = await CrossingRelay.create(`GNUPGHOME=${target.dir} HOME=${target.env.HOME}`);
  const args = ['up', '--exec', relay.enter, '--no-gpg', '--runtime', runtime, ...options];
  await person.ok(...args);
  const socket = join(target.env.HOME!, '.ssh/agent.sock');
  const sshd = await SshServer.start();
  onTestFinished(() => sshd.stop());
  // The configuration of the server's own tests logs in with a file, and not with an agent.
  const config = (await readFile(sshd.configPath, 'utf8'))
    .replace(/IdentityFile .*/, 'IdentityFile none')
    .replace('IdentitiesOnly yes', 'IdentitiesOnly no')
    .replace('IdentityAgent none', 'IdentityAgent SSH_AUTH_SOCK');
  const file = join(await tempDir(), 'config');
  await writeFile(file, config);
  const env = { ...process.env, LC_ALL: 'C', SSH_AUTH_SOCK: socket };
  return {
    person,
    relay,
    socket,
    sshd,
    config: file,
    env,
    login: (...words: string[]) => run('ssh', ['-F', file, ...words], { env }),
  };
}

interface BridgedOptions {
  socketPath?: string;
  runtime?: string;
  options?: string[];
  person?: Person;
}

async function agentWithKey(): Promise<{ agent: TestSshAgent; publicKey: string }> {
  const agent = await startSshAgent();
  const key = await agent.addKey('work');
  return { agent, publicKey: await readFile(`${key}.pub`, 'utf8') };
}

/** An agent in front of another, which answers each bind as a test says: by the connection, and its place there. */
async function fickleAgent(behind: string, answer: (connection: number, bind: number) => number | undefined) {
  const path = join(await tempDir(), 'fickle');
  let connections = 0;
  const server = net.createServer((client) => {
    const upstream = net.connect(behind);
    const [connection, reader] = [connections++, new SshMessageReader('client')];
    let binds = 0;
    client.on('data', (bytes) => {
      reader.push(bytes, (message) => {
        const said = message.type === 27 ? answer(connection, binds++) : undefined;
        if (said === undefined) upstream.write(message.bytes);
        else client.write(SshMessage.of(said, Buffer.alloc(0)).bytes);
      });
    });
    upstream.on('data', (bytes) => client.write(bytes));
    client.on('close', () => upstream.destroy()).on('error', () => {});
    upstream.on('close', () => client.destroy()).on('error', () => {});
  });
  server.listen(path);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { path, connections: () => connections };
}

requireSystem(
  'sshd',
  'perl',
  'native',
)('a login over a bridge', () => {
  it.each(['node', 'perl', 'native'])('crosses twice, over %s', async (runtime) => {
    const { agent, publicKey } = await agentWithKey();
    const { sshd, login, relay } = await bridged({ socketPath: agent.socketPath, runtime });
    await sshd.authorize(publicKey);
    for (let times = 0; times < 2; times++) {
      expect(await login(SSH_HOST, 'true')).toMatchObject({ status: 0 });
      expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 2 }]);
    }
  });

  it('crosses three times without answering ahead', async () => {
    const { agent, publicKey } = await agentWithKey();
    const { sshd, login, relay } = await bridged({ socketPath: agent.socketPath, options: ['--no-ahead'] });
    await sshd.authorize(publicKey);
    expect(await login(SSH_HOST, 'true')).toMatchObject({ status: 0 });
    expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 3 }]);
  });

  it('crosses twice on each of two machines, the second through ssh -A', async () => {
    const { agent, publicKey } = await agentWithKey();
    const { sshd, login, relay, config } = await bridged({ socketPath: agent.socketPath });
    await sshd.authorize(publicKey);
    const inner = `ssh -F ${config} ${SSH_HOST} echo inside`;
    const done = await login('-A', SSH_HOST, inner);
    expect(done.stdout.toString()).toBe('inside\n');
    // `ssh -A` also looks whether there is an agent at all, and asks it nothing.
    const found = (await relay.ended(3)).map(({ crossings }) => crossings);
    expect(found.sort()).toEqual([0, 2, 2]);
  });

  it('does not get a key that is bound to a destination, and goes on with another', async () => {
    const { agent, publicKey } = await agentWithKey();
    const { sshd, login, relay } = await bridged({ socketPath: agent.socketPath });
    const bound = join(agent.dir, 'bound');
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'bound', '-f', bound]);
    const known = ['-H', join(sshd.dir, 'known_hosts')];
    await runOk('ssh-add', ['-q', ...known, '-h', SSH_HOST, bound], { env: agent.env });
    await sshd.authorize(await readFile(`${bound}.pub`, 'utf8'));
    expect((await login(SSH_HOST, 'true')).status).toBe(255);
    // `work` was offered, and the server did not know it.
    expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 1 }]);
    await sshd.authorize(publicKey);
    expect(await login(SSH_HOST, 'true')).toMatchObject({ status: 0 });
    expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 2 }]);
  });

  it('works with gpg-agent’s ssh keys', async () => {
    const person = await Person.create();
    const key = await person.home.createKey('Auth <auth@example.org>', { usage: 'auth' });
    const listing = await person.home.gpgOk(['-K', '--with-keygrip', '--with-colons', key]);
    await writeFile(join(person.home.dir, 'sshcontrol'), `${/^grp:+([0-9A-F]{40}):/m.exec(listing)![1]}\n`);
    const { sshd, login, relay } = await bridged({ person, options: ['--ssh-from-gpg'] });
    await sshd.authorize(await person.home.gpgOk(['--export-ssh-key', key]));
    for (let times = 0; times < 2; times++) {
      expect(await login(SSH_HOST, 'true')).toMatchObject({ status: 0 });
      expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 2 }]);
    }
  });
});

requireSystem('sshd')('an ssh-agent whose answer to a bind is not what the client was told', () => {
  const [FAILURE, SUCCESS] = [5, 6];

  it('signs nothing on that connection, and tells the next client nothing', async () => {
    const { agent, publicKey } = await agentWithKey();
    const fickle = await fickleAgent(agent.socketPath, (_, bind) => (bind === 0 ? SUCCESS : FAILURE));
    const { person, sshd, login, relay } = await bridged({ socketPath: fickle.path });
    await sshd.authorize(publicKey);
    expect((await login(SSH_HOST, 'true')).status).toBe(255);
    expect((await login(SSH_HOST, 'true')).status).toBe(0);
    expect((await relay.ended(2)).map(({ crossings }) => crossings)).toEqual([2, 3]);
    expect(await person.ok('log', '--exec', relay.enter)).toMatch(/session-bind changed/);
  });

  it('is told anew to the next client, if it is another agent by now', async () => {
    const { agent, publicKey } = await agentWithKey();
    const state = { changed: Number.POSITIVE_INFINITY };
    // It changes between the bridge's own bind and the client's.
    const fickle = await fickleAgent(agent.socketPath, (connection, bind) =>
      connection - state.changed + bind > 0 ? FAILURE : SUCCESS,
    );
    const { sshd, login, relay } = await bridged({ socketPath: fickle.path });
    await sshd.authorize(publicKey);
    expect((await login(SSH_HOST, 'true')).status).toBe(0);
    state.changed = fickle.connections();
    expect((await login(SSH_HOST, 'true')).status).toBe(255);
    expect((await login(SSH_HOST, 'true')).status).toBe(0);
    await relay.ended(3);
    expect((await login(SSH_HOST, 'true')).status).toBe(0);
    expect(await relay.ended()).toEqual([{ type: 'ssh-agent', crossings: 2 }]);
  });

  it('a real one refuses a second login on a connection, and then signs nothing', async () => {
    const { agent, publicKey } = await agentWithKey();
    const { socket } = await bridged({ socketPath: agent.socketPath });
    const [sign, login] = [signRequestOf(publicKey), loginBind];
    expect(await answers(socket, [login(), LIST_MESSAGE, sign])).toEqual([SUCCESS, 12, 14]);
    expect(await answers(socket, [login(), login(), LIST_MESSAGE, sign])).toEqual([
      SUCCESS,
      SUCCESS,
      12,
      FAILURE,
    ]);
    // From now on nothing is told, and everything is the agent's own word.
    expect(await answers(socket, [login(), login(), LIST_MESSAGE, sign])).toEqual([SUCCESS, FAILURE, 12, 14]);
  });

  it('a signature that was asked for early waits for the agent’s own answers', async () => {
    const { agent, publicKey } = await agentWithKey();
    const { socket } = await bridged({ socketPath: agent.socketPath });
    const early = Buffer.concat([loginBind(), loginBind(), signRequestOf(publicKey)]);
    expect(await answers(socket, [early], 3)).toEqual([SUCCESS, SUCCESS, FAILURE]);
  });

  /** A bind for a login, and not for a hop. */
  function loginBind(): Buffer {
    const bind = sessionBindMessage();
    bind.writeUInt8(0, bind.length - 1);
    return bind;
  }

  function signRequestOf(publicKey: string): Buffer {
    return signRequest(Buffer.from(publicKey.split(' ')[1]!, 'base64'), sshsigData());
  }

  /** The types of the answers to messages that are sent one after the other. */
  async function answers(path: string, messages: readonly Buffer[], count = messages.length) {
    const client = net.connect(path);
    const reader = new SshMessageReader('agent');
    const types: number[] = [];
    client.on('data', (bytes) => {
      reader.push(bytes, ({ type }) => types.push(type));
    });
    for (const [index, message] of messages.entries()) {
      client.write(message);
      const wanted = index === messages.length - 1 ? count : index + 1;
      while (types.length < wanted) await once(client, 'data');
    }
    client.destroy();
    return types;
  }
});
