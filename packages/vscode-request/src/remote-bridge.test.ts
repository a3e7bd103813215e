import { once } from 'node:events';
import net from 'node:net';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { HOST_COMMANDS } from '@gpg-bridge/vscode-shared/contract';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Host } from './host.ts';
import { RemoteBridge } from './remote-bridge.ts';

const TABLE = {
  version: 1,
  greeting: 'OK told\n',
  entries: [{ id: 1, pattern: '^RESET$', answer: 'OK told\n' }],
};

/** A window whose host answers ahead, and whose pings can be held back. */
async function served() {
  const home = await GnupgHome.create();
  onTestFinished(() => home.remove());
  const pings = { held: false };
  const answers: Record<string, () => unknown> = {
    [HOST_COMMANDS.connectAgent]: () => ({
      sessionId: 's',
      greeting: 'OK real\n',
      response: 'OK real\n',
      ahead: { table: TABLE },
    }),
    [HOST_COMMANDS.sendCommands]: () => ({ response: 'OK real\n', ahead: {} }),
    [HOST_COMMANDS.disconnectAgent]: () => undefined,
    [HOST_COMMANDS.checkVersion]: () => ({ version: '0.1.0', permission: 'allowed' }),
  };
  const execute = async (command: string) => {
    if (command === HOST_COMMANDS.checkVersion && pings.held) await new Promise(() => {});
    return { ok: true, value: answers[command]?.() };
  };
  const host = new Host({
    execute,
    version: '0.1.0',
    token: () => undefined,
    keepToken: () => {},
    onWaiting: () => () => {},
    onOperation: () => {},
  });
  const bridge = new RemoteBridge({
    host,
    version: '0.1.0',
    windowName: () => 'a window',
    gnupg: () => ({ env: home.env }),
    log: () => {},
    isTracing: () => false,
    onStop: () => {},
    ownKeys: () => 'set-aside',
    askAboutOwnKeys: async () => 'set-aside',
    onSituation: () => {},
    onError: () => {},
    onServing: async () => {},
    timing: { pingEveryMs: 20, pingDeadlineMs: 10_000 },
  });
  await bridge.start();
  onTestFinished(() => bridge.stop());
  /** What a client gets that sends RESET. */
  const greeted = async (): Promise<string> => {
    const socket = net.connect(bridge.socketPath!);
    onTestFinished(() => void socket.destroy());
    socket.setEncoding('latin1').write('RESET\n');
    let said = '';
    while (said.split('\n').length < 3) said += String((await once(socket, 'data'))[0]);
    socket.destroy();
    return said;
  };
  return { pings, greeted };
}

it('a client is told nothing while the answer to a ping is overdue', async () => {
  const { pings, greeted } = await served();
  expect(await greeted()).toMatch(/^OK real/); // brings the table
  expect(await greeted()).toBe('OK told\nOK told\n');
  pings.held = true;
  await vi.waitFor(async () => expect(await greeted()).toBe('OK real\nOK real\n'), { timeout: 9_000 });
});
