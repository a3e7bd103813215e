import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import { agentsOf, crashAgent } from '@gpg-bridge/test-support/agent-processes';
import { TestClient } from '@gpg-bridge/test-support/client-pair';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { joinHomes, type ProxiedHomes } from '@gpg-bridge/test-support/proxied-homes';
import { writeScript } from '@gpg-bridge/test-support/script';
import { ScriptedAgent, type ScriptedAgentOptions } from '@gpg-bridge/test-support/scripted-agent';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

const PLAINTEXT = 'the plaintext of this suite';
const never = new Promise<never>(() => {});

let homes: ProxiedHomes;
let signer: string;
/** What takes the target's calls to a host. Every test begins with the host that works. */
let carrier: CommandExecutor;

beforeAll(async () => {
  homes = await joinHomes({
    requestDeps: {
      commandExecutor: {
        connectAgent: () => carrier.connectAgent(),
        sendCommands: (id, block) => carrier.sendCommands(id, block),
        disconnectAgent: (id) => carrier.disconnectAgent(id),
      },
    },
  });
  signer = await homes.host.createKey('Ed <ed@example.org>');
  await homes.host.addEncryptionKey(signer);
  await homes.shareKeys();
});
afterAll(() => homes.remove());
beforeEach(() => {
  carrier = homes.agentProxy;
});

const sign = () => homes.target.gpg(['-u', signer, '--output', '-', '--sign'], { input: PLAINTEXT });

const unconnected = (connectAgent: CommandExecutor['connectAgent']): CommandExecutor => ({
  connectAgent,
  sendCommands: () => never,
  disconnectAgent: () => never,
});

/** Of the encryption key: the second that is listed. */
async function keygrip(): Promise<string> {
  const listing = await homes.host.gpgOk(['--with-colons', '--with-keygrip', '-K']);
  return [...listing.matchAll(/^grp:+([0-9A-F]{40}):$/gm)][1]![1]!;
}

async function expectSigned(): Promise<void> {
  const made = await sign();
  expect(made.stderr).toBe('');
  const verified = await homes.target.gpg(['--status-fd', '1', '--output', '/dev/null', '--decrypt'], {
    input: made.stdout,
  });
  expect(verified.stdout.toString()).toContain(`VALIDSIG ${signer}`);
}

async function expectNoOwnAgent(inode: number): Promise<void> {
  expect(statSync(homes.requestProxy.socketPath).ino).toBe(inode);
  expect(await agentsOf(homes.target)).toEqual([]);
  expect(existsSync(await homes.target.socket('agent-extra-socket'))).toBe(false);
}

async function expectNoSessions(): Promise<void> {
  await expect.poll(() => [homes.book.openSessions, homes.clients()], PATIENT).toEqual([0, 0]);
}

describe('a host whose agent can’t be had', () => {
  const scripted = (options: ScriptedAgentOptions) => async () => {
    const agent = await ScriptedAgent.start(options);
    return new AgentProxy(
      { greetingTimeoutMs: 100, logCallback: homes.book.log },
      { connect: agent.connect },
    );
  };
  const real = (config: object) =>
    new AgentProxy({ env: homes.host.env, logCallback: homes.book.log, ...config });

  it.each<{ name: string; carry: () => Promise<CommandExecutor>; says?: string }>([
    { name: 'there is no GnuPG', carry: async () => real({ gpgBinDir: await tempDir() }) },
    {
      name: 'its socket stays missing',
      carry: async () => {
        const gpgBinDir = await tempDir();
        await writeScript(gpgBinDir, 'gpgconf', '');
        return real({ gpgBinDir, socketPath: join(gpgBinDir, 'S'), connectTimeoutMs: 50 });
      },
    },
    {
      name: 'its socket is not the restricted one',
      carry: async () => real({ socketPath: await homes.host.socket('agent-socket') }),
    },
    {
      name: 'the carrier rejects',
      carry: async () => unconnected(() => Promise.reject(new Error('cut off'))),
    },
    { name: 'it greets with ERR', carry: scripted({ greeting: 'ERR 67109115 Forbidden <GPG Agent>\n' }) },
    { name: 'it greets with garbage', carry: scripted({ greeting: 'HTTP/1.1 400 Bad Request\r\n\r\n' }) },
    { name: 'it is silent', carry: scripted({ greeting: '' }) },
    { name: 'it answers with garbage', carry: scripted({ answer: () => 'Hello?\n' }) },
    {
      name: 'it answers without an end',
      carry: scripted({ answer: () => 'x'.repeat(2000) }),
      says: 'Line passed to IPC too long',
    },
  ])(
    'because $name: gpg says so, and starts no agent of its own',
    async ({ carry, says = 'No agent running' }) => {
      const { ino } = statSync(homes.requestProxy.socketPath);
      carrier = await carry();
      const made = await sign();
      expect(made.status).not.toBe(0);
      expect(made.stderr).toContain(says);
      await expectNoOwnAgent(ino);
      carrier = homes.agentProxy;
      await expectSigned();
      await expectNoSessions();
    },
  );
});

it('a carrier that never answers is waited for no longer than the timeout: gpg says so, and starts no agent', async () => {
  const target = await GnupgHome.create();
  onTestFinished(() => target.remove());
  const { stdout } = await homes.host.gpg(['--export']);
  await target.gpgOk(['--no-autostart', '--import'], { input: stdout });
  const proxy = await startRequestProxy(
    { env: target.env, carrierTimeoutMs: 50 },
    { commandExecutor: unconnected(() => never) },
  );
  onTestFinished(() => proxy.stop());
  const made = await target.gpg(['-u', signer, '--output', '-', '--sign'], { input: PLAINTEXT });
  expect(made.status).not.toBe(0);
  expect(made.stderr).toContain('No agent running');
  expect(await agentsOf(target)).toEqual([]);
});

describe('a gpg-agent that crashes', () => {
  it('between two commands is started again for the next', async () => {
    await expectSigned();
    await crashAgent(homes.host);
    await expectSigned();
  });

  it('under an idle session makes its next command an error, and the one after works', async () => {
    const idle = await TestClient.connect(homes.requestProxy.socketPath);
    idle.write('GETINFO version\n');
    await idle.reads('\nOK\n');
    await crashAgent(homes.host);
    idle.write('GETINFO version\n');
    expect(await idle.readsAll()).toMatch(/\nERR 67108941 No agent running <GPG Agent> - [^\n]*\n$/);
    await expectSigned();
    await expectNoSessions();
  });
});

describe('a client that dies', () => {
  const phases: { phase: string; goThere: (client: TestClient) => Promise<void> }[] = [
    { phase: 'before the greeting', goThere: async () => {} },
    { phase: 'idle', goThere: async (client) => void (await client.reads('OK ')) },
    {
      phase: 'in the middle of a command',
      goThere: async (client) => {
        await client.reads('OK ');
        client.write('GETINFO ver');
      },
    },
    { phase: 'with a response owed', goThere: async (client) => client.write('GETINFO version\n') },
    {
      phase: 'in an inquiry',
      goThere: async (client) => {
        client.write(`RESET\nSETKEY ${await keygrip()}\nPKDECRYPT\n`);
        await client.reads('INQUIRE CIPHERTEXT\n');
      },
    },
    {
      phase: 'in the middle of an inquiry’s data',
      goThere: async (client) => {
        client.write(`SETKEY ${await keygrip()}\nPKDECRYPT\nD (7:enc-v`);
        await client.reads('INQUIRE CIPHERTEXT\n');
      },
    },
  ];

  it.each(phases)('$phase is cleaned up after, and others go on', async ({ goThere }) => {
    const other = await TestClient.connect(homes.requestProxy.socketPath);
    await other.reads('OK ');
    const client = await TestClient.connect(homes.requestProxy.socketPath);
    await goThere(client);
    client.socket.destroy();
    await expect.poll(() => [homes.book.openSessions, homes.clients()], PATIENT).toEqual([1, 1]);
    other.write('GETINFO version\nBYE\n');
    expect(await other.readsAll()).toMatch(/\nD \d[^\n]*\nOK\nOK closing connection\n$/);
    await expectNoSessions();
    await expectSigned();
  });

  it('and one that ends its side gets every answer first', async () => {
    const client = await TestClient.connect(homes.requestProxy.socketPath);
    client.socket.end('GETINFO version\nGETINFO restricted\nBYE\n');
    expect(await client.readsAll()).toMatch(/^OK [^\n]*\nD \d[^\n]*\nOK\nOK\nOK closing connection\n$/);
    await expectNoSessions();
  });
});

describe('the agent’s own proxy', () => {
  it('returns the agent’s answer to a BYE, and its session is over', async () => {
    const { sessionId, greeting } = await homes.agentProxy.connectAgent();
    expect(greeting).toMatch(/^OK Pleased to meet you/);
    expect(await homes.agentProxy.sendCommands(sessionId, 'BYE\n')).toEqual({
      response: 'OK closing connection\n',
    });
    await expectNoSessions();
  });

  it('disconnects in an inquiry too', async () => {
    const { sessionId } = await homes.agentProxy.connectAgent();
    onTestFinished(() => homes.agentProxy.stop());
    await homes.agentProxy.sendCommands(sessionId, `SETKEY ${await keygrip()}\n`);
    const { response } = await homes.agentProxy.sendCommands(sessionId, 'PKDECRYPT\n');
    expect(response).toMatch(/INQUIRE CIPHERTEXT\n$/);
    await homes.agentProxy.disconnectAgent(sessionId);
    await expectNoSessions();
  });
});

it('none of which shows in the log', () => {
  expect(homes.book.entries.length).toBeGreaterThan(20);
  expect(homes.payload.length).toBeGreaterThan(20);
  for (const secret of [Buffer.from(PLAINTEXT), ...homes.payload]) expectNoSecret(secret, homes.book.text);
});
