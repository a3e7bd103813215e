// An extension host on the host's side: AgentProxy, called by lines of JSON as VS Code calls commands.
import net from 'node:net';
import { createInterface } from 'node:readline';
import { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';

interface Call {
  id: number;
  method: 'connectAgent' | 'sendCommands' | 'disconnectAgent' | 'ping';
  args: unknown[];
}

const proxy = new AgentProxy({ env: process.env, socketPath: process.env.HELD_SOCKET });

/** What another host did with a session is over when that host is. */
net
  .createServer((socket) => {
    const sessions = new Set<string>();
    socket.on('error', () => {});
    socket.once('close', () => {
      for (const id of sessions) void proxy.disconnectAgent(id).catch(() => {});
    });
    createInterface(socket)
      .on('error', () => {})
      .on('line', (line) => {
        const { id, method, args } = JSON.parse(line) as Call;
        if (method === 'ping') {
          socket.write(`${JSON.stringify({ id, value: true })}\n`);
          return;
        }
        const call = proxy[method].bind(proxy) as (
          ...args: unknown[]
        ) => Promise<{ sessionId?: string } | undefined>;
        const called = call(...args);
        called.then(
          (value) => {
            if (value?.sessionId) sessions.add(value.sessionId);
            socket.write(`${JSON.stringify({ id, value })}\n`);
          },
          (error: Error) => socket.write(`${JSON.stringify({ id, error: error.message })}\n`),
        );
      });
  })
  .listen(process.argv[2], () => console.log('listening'));
process.stdin.on('end', () => process.exit()).resume();
