/*
 * Both proxies of the VS Code carrier joined in one process, without VS Code: what is between a client
 * and the agent is then our code alone. GNUPGHOME is the host's, the first argument is where to listen.
 * `--delay MS` holds every call and every answer for so long; `--no-ahead` lets the target answer nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';

const { values, positionals } = parseArgs({
  options: { delay: { type: 'string', default: '0' }, 'no-ahead': { type: 'boolean', default: false } },
  allowPositionals: true,
});
const socketPath = positionals[0] ?? '';
const delayMs = Number(values.delay);
const host = new AgentProxy({ maxSessions: 4_096, ahead: () => !values['no-ahead'] });

async function slowly<T>(call: () => Promise<T>): Promise<T> {
  await delay(delayMs);
  const answer = await call();
  await delay(delayMs);
  return answer;
}

const distant: CommandExecutor = {
  connectAgent: (...words) => slowly(() => host.connectAgent(...words)),
  sendCommands: (...words) => slowly(() => host.sendCommands(...words)),
  disconnectAgent: (...words) => slowly(() => host.disconnectAgent(...words)),
};
const target = await startRequestProxy(
  {},
  {
    commandExecutor: delayMs > 0 ? distant : host,
    getSocketPath: async () => socketPath,
    stopOwnAgent: async () => {},
  },
);
process.stdout.write('ready\n');
process.stdin.resume();
process.stdin.once('end', async () => {
  await target.stop();
  await host.stop();
});
