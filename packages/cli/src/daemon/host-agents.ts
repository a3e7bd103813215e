import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { BridgeOptions } from '../manager/types.ts';

/** The host's agents that can be had, and what to tell about those that can't. */
export interface HostAgents {
  gpg?: HostGpgAgent;
  ssh?: HostSshAgent;
  warnings: string[];
}

/**
 * Finds the host's agents. One that is missing is a warning, unless it was asked for by name; with none
 * left there is nothing to bridge.
 */
export async function findHostAgents(options: BridgeOptions, log: LogCallback): Promise<HostAgents> {
  const found: HostAgents = { warnings: [] };
  const gpg = new HostGpgAgent({ log });
  const ssh = new HostSshAgent({ log, fromGpg: options.sshFromGpg ?? false });
  await Promise.all([
    tryAgent(gpg, options.gpg, (agent) => (found.gpg = agent)),
    // Who says which ssh-agent it shall be asks for it.
    tryAgent(ssh, options.ssh ?? (options.sshFromGpg || undefined), (agent) => (found.ssh = agent)),
  ]);
  if (found.gpg || found.ssh) return found;
  throw new BridgeError('NO_HOST_AGENT', {
    what: 'there is nothing to bridge',
    why: found.warnings.join('; ') || 'both agents were left out',
    fix: found.warnings.length > 0 ? 'Mend one of them and try again.' : 'Leave --no-gpg or --no-ssh out.',
  });

  async function tryAgent<A extends HostGpgAgent | HostSshAgent>(
    agent: A,
    wanted: boolean | undefined,
    keep: (agent: A) => void,
  ): Promise<void> {
    if (wanted === false) return;
    try {
      (await agent.connect()).socket.destroy();
      keep(agent);
    } catch (error) {
      const failure = toBridgeError(error, "a host's agent can't be had");
      if (wanted) throw failure;
      found.warnings.push(`${failure.what}: ${failure.why}`);
    }
  }
}
