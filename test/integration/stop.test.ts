import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { bundledScript } from '@gpg-bridge/test-support/bundled-script';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { run } from '@gpg-bridge/test-support/process';
import { expect, it, onTestFinished } from 'vitest';

const PROGRAM = `
import { once } from 'node:events';
import net from 'node:net';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';

const at = (home: string) => ({ ...process.env, GNUPGHOME: home });
let [hostSessions, clients] = [0, 0];
const agentProxy = new AgentProxy({
  env: at(process.env.HOST_HOME!),
  logCallback: (message) => {
    if (message.endsWith(': connecting')) hostSessions++;
    if (message.endsWith(': ended')) hostSessions--;
  },
});
let silent = false;
const requestProxy = await startRequestProxy(
  { env: at(process.env.TARGET_HOME!), onSessionsChanged: (open) => { clients = open; } },
  {
    commandExecutor: {
      connectAgent: () => (silent ? new Promise<never>(() => {}) : agentProxy.connectAgent()),
      sendCommands: (id, block) =>
        block === 'UNANSWERED\\n' ? new Promise<never>(() => {}) : agentProxy.sendCommands(id, block),
      disconnectAgent: (id) => agentProxy.disconnectAgent(id),
    },
  },
);
const connect = async (text: string) => {
  const client = net.connect(requestProxy.socketPath);
  client.on('error', () => {}).resume();
  await once(client, 'connect');
  client.write(text);
  return client;
};
const answered = await connect('GETINFO version\\n');
await once(answered, 'data');
await connect('');
await connect('half a comm');
await connect('UNANSWERED\\n');
const unread = await connect('HELP\\n'.repeat(1000));
unread.pause();
silent = true;
await connect('RESET\\n');
while (clients < 6) await new Promise((resolve) => setImmediate(resolve));
console.log('stopping');
await requestProxy.stop();
await agentProxy.stop();
console.log(\`\${clients} \${hostSessions} left\`);
`;

it('both proxies leave nothing behind: no socket, no file, no handle that keeps the process', async () => {
  const [host, target] = [await GnupgHome.create(), await GnupgHome.create()];
  onTestFinished(async () => {
    await target.remove();
    await host.remove();
  });
  const script = await bundledScript(PROGRAM);
  const socket = await target.socket('agent-socket');
  // It ends by itself, or this never does; an unsettled await would make it 13.
  const done = await run(process.execPath, [script], {
    env: { ...process.env, HOST_HOME: host.dir, TARGET_HOME: target.dir },
  });
  expect(done.stderr).toBe('');
  expect(done.stdout.toString()).toBe('stopping\n0 0 left\n');
  expect(done.status).toBe(0);
  expect(existsSync(socket)).toBe(false);
  expect((await readdir(dirname(socket))).filter((name) => name.startsWith('S.'))).toEqual([]);
});
