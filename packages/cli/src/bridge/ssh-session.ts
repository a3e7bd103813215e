import { toBridgeError } from '@gpg-bridge/core/errors';
import type { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import { type Outlets, pipeSocket } from '@gpg-bridge/core/mux/pipe';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import { type Passed, SshAgentFilter } from '@gpg-bridge/core/ssh/filter';
import type { Journal } from './journal.ts';

/** Joins one client's stream with the host's ssh-agent, through the allowlist. */
export async function serveSshStream(
  stream: MuxStream,
  agent: HostSshAgent,
  keys: readonly string[] | undefined,
  journal: Journal,
  log: LogCallback,
): Promise<void> {
  try {
    const { socket } = await agent.connect();
    if (!stream.open) {
      socket.destroy();
      stream.discard(); // the client left meanwhile, and what it sent goes nowhere
      return;
    }
    const filter = new SshAgentFilter({
      ...(keys ? { keys } : {}),
      onOperation: (operation) => journal.operation(stream.id, operation),
    });
    journal.begin(filter);
    pipeSocket(stream, socket, {
      fromStream(bytes, out) {
        pass(filter.fromClient(bytes), out);
        return true;
      },
      fromSocket: (bytes, out) => pass(filter.fromAgent(bytes), out),
      onEnd(error) {
        if (error) log(`an ssh session ended: ${error.message}`, 'warn');
        filter.end();
        journal.end(filter);
      },
    });
  } catch (error) {
    // ssh says by itself that its agent failed, and starts none of its own.
    log(
      `an ssh client was turned away: ${toBridgeError(error, "can't reach the ssh-agent").message}`,
      'warn',
    );
    stream.discard();
  }
}

function pass({ toAgent, toClient }: Passed, out: Outlets): void {
  for (const message of toAgent) out.toSocket(message);
  for (const message of toClient) out.toStream(message);
}
