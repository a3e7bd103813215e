import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { crashAgent } from '@gpg-bridge/test-support/agent-processes';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { joinHomes, type ProxiedHomes } from '@gpg-bridge/test-support/proxied-homes';
import { ScriptedAgent } from '@gpg-bridge/test-support/scripted-agent';
import { expectNoSecret } from '@gpg-bridge/test-support/secrets';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

const PASSPHRASE = 'correct-horse-battery';
const PLAINTEXT = 'what the protected key signs';
/** Far less than a person takes, far more than the machine does. */
const TIMEOUT_MS = 2_500;

describe('a key with a passphrase', () => {
  let homes: ProxiedHomes;
  let pinentry: ScriptedPinentry;
  let locked: string;
  let open: string;
  const operations: Operation[] = [];

  beforeAll(async () => {
    pinentry = await ScriptedPinentry.create(PASSPHRASE);
    homes = await joinHomes({
      agentConf: pinentry.agentConf,
      agentConfig: {
        connectTimeoutMs: TIMEOUT_MS,
        greetingTimeoutMs: TIMEOUT_MS,
        byeTimeoutMs: TIMEOUT_MS,
        onOperation: (_, operation) => void operations.push(operation),
      },
      requestConfig: { carrierTimeoutMs: TIMEOUT_MS },
    });
    locked = await homes.host.createKey('Locked <locked@example.org>', { passphrase: PASSPHRASE });
    open = await homes.host.createKey('Open <open@example.org>');
    await homes.shareKeys();
    await homes.agentProxy
      .connectAgent()
      .then(({ sessionId }) => homes.agentProxy.disconnectAgent(sessionId));
  });
  afterAll(async () => {
    await homes.remove();
    await pinentry.remove();
  });
  beforeEach(() => pinentry.gives(PASSPHRASE));

  const signArgs = (key: string) => ['-u', key, '--output', '-', '--detach-sign'];
  const sign = (key: string) => homes.target.gpg(signArgs(key), { input: PLAINTEXT });

  async function expectSigned(key: string): Promise<void> {
    const made = await sign(key);
    expect(made.stderr).toBe('');
    expect(made.status).toBe(0);
  }

  it('signs when the person types it', async () => {
    await expectSigned(locked);
  });

  it('does not sign when the person cancels, and gpg says that they did', async () => {
    await pinentry.cancels();
    const made = await sign(locked);
    expect(made.status).not.toBe(0);
    expect(made.stderr).toMatch(/signing failed: Operation cancelled/);
    expect(operations.findLast(({ command }) => command === 'PKSIGN')?.outcome).toBe('cancelled');
  });

  it('waits for a person longer than for any machine, and asks for nothing else meanwhile', async () => {
    await pinentry.waits();
    const signing = sign(locked);
    await pinentry.asked();
    const outlasted = new AgentProxy(
      { greetingTimeoutMs: TIMEOUT_MS },
      { connect: (await ScriptedAgent.start({ greeting: '' })).connect },
    );
    await expect(outlasted.connectAgent()).rejects.toMatchObject({ code: 'AGENT_GREETING_TIMEOUT' });
    // Another use of a key has its turn when the person has answered; everything else goes on.
    const next = sign(open);
    await homes.target.gpgOk(['--list-secret-keys']);
    const signed = () => operations.filter(({ command }) => command === 'PKSIGN').length;
    const before = signed();
    await pinentry.goOn();
    for (const made of await Promise.all([signing, next])) {
      expect(made.stderr).toBe('');
      expect(made.status).toBe(0);
    }
    expect(signed() - before).toBe(2);
  });

  it('has its session end at once when the client dies while the person is asked', async () => {
    await pinentry.waits();
    const gpg = spawn('gpg', ['--batch', '--no-tty', ...signArgs(locked)], { env: homes.target.env });
    gpg.stdin.end(PLAINTEXT);
    await pinentry.asked();
    expect(homes.book.openSessions).toBe(1);
    gpg.kill('SIGKILL');
    await once(gpg, 'close');
    await expect.poll(() => [homes.book.openSessions, homes.clients()], PATIENT).toEqual([0, 0]);
    await expectSigned(open);
    await pinentry.goOn();
  });

  it('fails with an error when the agent crashes while the person is asked, and others go on', async () => {
    await pinentry.waits();
    const signing = sign(locked);
    await pinentry.asked();
    await crashAgent(homes.host);
    const made = await signing;
    expect(made.status).not.toBe(0);
    expect(made.stderr).toMatch(/signing failed: No agent running/);
    await homes.host.launchAgent(); // starting it may take longer than the timeouts of this suite
    await expectSigned(open);
    await pinentry.goOn();
    await pinentry.gives(PASSPHRASE);
    await expectSigned(locked);
  });

  it('tells of it in operations and logs without a byte of passphrase, plaintext or signature', () => {
    expect(operations.filter(({ command }) => command === 'PKSIGN').map(({ outcome }) => outcome)).toEqual(
      expect.arrayContaining(['ok', 'cancelled', 'closed']),
    );
    expect(homes.book.entries.length).toBeGreaterThan(10);
    expect(homes.payload.length).toBeGreaterThan(5);
    for (const secret of [Buffer.from(PASSPHRASE), Buffer.from(PLAINTEXT), ...homes.payload]) {
      expectNoSecret(secret, homes.book.text, operations);
    }
  });
});
