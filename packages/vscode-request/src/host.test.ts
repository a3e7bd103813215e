import { BridgeError } from '@gpg-bridge/core/errors';
import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { HOST_COMMANDS, reply } from '@gpg-bridge/vscode-shared/contract';
import { describe, expect, it } from 'vitest';
import { Host } from './host.ts';

function setUp() {
  const fake = new FakeVsCode();
  const host = new Host(
    (command, ...args) => fake.api.commands.executeCommand(command, ...args),
    () => () => {},
  );
  return { fake, host };
}

describe('Host', () => {
  it('calls the commands of the host’s extension', async () => {
    const { fake, host } = setUp();
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
    expect(await host.ping()).toBe('allowed');
    await host.meet('0.1.0');
    expect(calls).toEqual([
      ['_gpg-bridge-agent.connectAgent'],
      ['_gpg-bridge-agent.sendCommands', 's', 'RESET\n'],
      ['_gpg-bridge-agent.disconnectAgent', 's'],
      ['_gpg-bridge-agent.exportPublicKeys', 'pairs'],
      ['_gpg-bridge-agent.checkVersion'],
      ['_gpg-bridge-agent.checkVersion', '0.1.0'],
    ]);
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
    await expect(host.meet('0.1.0')).rejects.toThrow(
      expect.objectContaining({ code: 'HOST_EXTENSION_MISSING', fix: expect.stringContaining('Install it') }),
    );
  });

  it('says that the carrier failed when VS Code itself does', async () => {
    const host = new Host(
      async () => {
        throw new Error('Canceled');
      },
      () => () => {},
    );
    await expect(host.connectAgent()).rejects.toThrow(
      expect.objectContaining({ code: 'CARRIER_FAILED', why: 'Canceled' }),
    );
  });

  it('refuses a host of another version, and says what to update', async () => {
    const { fake, host } = setUp();
    fake.handlers.set(HOST_COMMANDS.checkVersion, () => reply(() => ({ version: '0.2.0' })));
    await expect(host.meet('0.1.0')).rejects.toThrow(
      expect.objectContaining({
        code: 'VERSION_MISMATCH',
        message: expect.stringContaining('Update gpg-bridge-request'),
      }),
    );
  });
});
