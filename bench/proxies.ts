/*
 * Both proxies of the VS Code carrier joined in one process, without VS Code: what is between a client
 * and the agent is then our code alone. GNUPGHOME is the host's, the argument is where to listen.
 */
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';

const socketPath = process.argv[2] ?? '';
const host = new AgentProxy({ maxSessions: 4_096 });
const target = await startRequestProxy(
  {},
  { commandExecutor: host, getSocketPath: async () => socketPath, stopOwnAgent: async () => {} },
);
process.stdout.write('ready\n');
process.stdin.resume();
process.stdin.once('end', async () => {
  await target.stop();
  await host.stop();
});
