import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { BridgeError } from '@gpg-bridge/core/errors';
import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { HOST_COMMANDS, reply } from '@gpg-bridge/vscode-shared/contract';
import { describe, expect, it } from 'vitest';
import { Host } from './host.ts';

function setUp() {
  const fake = new FakeVsCode();
  const kept: string[] = [];
  const operations: Operation[] = [];
  const host = new Host({
    execute: (command, ...args) => fake.api.commands.executeCommand(command, ...args),
    version: '0.1.0',
    token: () => kept.at(-1),
    keepToken: (token) => void kept.push(token),
    onWaiting: () => () => {},
    onOperation: (operation) => void operations.push(operation),
  });
  return { fake, host, kept, operations };
}

describe('Host', () => {
  it('calls the commands of the host’s extension', async () => {
    const { fake, host, kept, operations } = setUp();
    kept.push('token');
    const calls: unknown[] = [];
    for (const command of Object.values(HOST_COMMANDS)) {
      fake.handlers.set(command, (...args: unknown[]) =>
        reply(() => {
          calls.push([command, ...args]);
          return {
            sessionId: 's',
            greeting: 'OK\n',
            response: 'OK\n',
            version: '0.1.4',
            permission: 'allowed',
          };
        }),
      );
    }
    await host.connectAgent();
    await host.sendCommands('s', 'RESET\n');
    await host.disconnectAgent('s');
    await host.exportPublicKeys('pairs');
    await host.meet();
    expect(calls).toEqual([
      ['_gpg-bridge-agent.connectAgent', 'token'],
      ['_gpg-bridge-agent.sendCommands', 's', 'RESET\n'],
      ['_gpg-bridge-agent.disconnectAgent', 's'],
      ['_gpg-bridge-agent.exportPublicKeys', 'pairs', 'token'],
      ['_gpg-bridge-agent.checkVersion', '0.1.0', 'token', 'look'],
    ]);
    expect(operations).toMatchObject([{ command: 'RESET', outcome: 'ok' }]);
  });

  it('has the person asked when it is not allowed yet, and keeps the token that comes of it', async () => {
    const { fake, host, kept } = setUp();
    const missing = new BridgeError('CONSENT_REQUIRED', { what: 'no', why: 'not allowed', fix: 'Allow it.' });
    fake.handlers.set(HOST_COMMANDS.connectAgent, (token: unknown) =>
      reply(() => {
        if (token !== 'given') throw missing;
        return { sessionId: 's', greeting: 'OK\n' };
      }),
    );
    const purposes: unknown[] = [];
    fake.handlers.set(HOST_COMMANDS.checkVersion, (_version: unknown, _token: unknown, purpose: unknown) =>
      reply(() => {
        purposes.push(purpose);
        return { version: '0.1.0', permission: 'allowed', token: 'given' };
      }),
    );
    expect(await host.connectAgent()).toMatchObject({ sessionId: 's' });
    expect(purposes).toEqual(['program-asks']);
    expect(kept).toEqual(['given']);
  });

  it('throws the host’s own errors', async () => {
    const { fake, host } = setUp();
    const error = new BridgeError('SESSION_LIMIT', { what: 'full', why: '512 are open', fix: 'Wait.' });
    fake.handlers.set(HOST_COMMANDS.connectAgent, () => reply(() => Promise.reject(error)));
    await expect(host.connectAgent()).rejects.toThrow(
      expect.objectContaining({ code: 'SESSION_LIMIT', message: 'full: 512 are open. Wait.' }),
    );
  });

  it('says that the extension is missing on the host', async () => {
    const { host } = setUp();
    await expect(host.meet()).rejects.toThrow(
      expect.objectContaining({ code: 'HOST_EXTENSION_MISSING', fix: expect.stringContaining('Install it') }),
    );
  });

  it('says that the carrier failed when VS Code itself does', async () => {
    const host = new Host({
      execute: async () => {
        throw new Error('Canceled');
      },
      version: '0.1.0',
      token: () => undefined,
      keepToken: () => {},
      onWaiting: () => () => {},
      onOperation: () => {},
    });
    await expect(host.connectAgent()).rejects.toThrow(
      expect.objectContaining({ code: 'CARRIER_FAILED', why: 'Canceled' }),
    );
  });

  it('refuses a host of another version, and says what to update', async () => {
    const { fake, host } = setUp();
    fake.handlers.set(HOST_COMMANDS.checkVersion, () => reply(() => ({ version: '0.2.0' })));
    await expect(host.meet()).rejects.toThrow(
      expect.objectContaining({
        code: 'VERSION_MISMATCH',
        message: expect.stringContaining('Update "Remote GPG Bridge"'),
      }),
    );
  });
});
