import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { listGpgKeys, resolveGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { fingerprint } from '@gpg-bridge/core/ssh/key-blob';
import { type BridgeOptions, isGpgImplied, isSshImplied } from '../bridge-options.ts';

/** The host's agents; one that is absent is not bridged. */
export interface HostAgents {
  gpg?: HostGpgAgent;
  ssh?: HostSshAgent;
  /** The only SSH keys that are offered; absent: all of them. */
  sshKeys?: readonly string[];
}

/** The agents that answer, and what to tell the person about the others. */
export interface FoundAgents {
  agents: HostAgents;
  /** The only GPG keys that can be used, by their keygrips; absent: all of them. */
  gpgKeygrips?: ReadonlySet<string>;
  /** How many private keys of each kind can be used; null where there are none to count. */
  offers: { gpg: number | null; ssh: number | null };
  /** Whose the keys are: user IDs by keygrip, comments of SSH keys by fingerprint. */
  keyNames: ReadonlyMap<string, string>;
  warnings: string[];
  /** Those that were wanted and not found. */
  missing: SocketType[];
}

/**
 * Finds the host's agents. One that is missing is a warning, or an error if a flag asked for it; it is
 * an error, too, if none is left.
 */
export async function findHostAgents(options: BridgeOptions, log: LogCallback): Promise<FoundAgents> {
  const agents: HostAgents = {};
  const warnings: string[] = [];
  const missing: SocketType[] = [];
  const gpg = new HostGpgAgent({ log, socketPath: options.gpgSocket });
  const ssh = new HostSshAgent({ log, fromGpg: options.sshFromGpg ?? false });
  await Promise.all([
    tryAgent(gpg, options.gpg ?? (isGpgImplied(options) || undefined), (agent) => (agents.gpg = agent)),
    // --ssh-from-gpg and --ssh-key ask for the ssh-agent, as --ssh does.
    tryAgent(ssh, options.ssh ?? (isSshImplied(options) || undefined), (agent) => (agents.ssh = agent)),
  ]);
  const [sshFound, gpgFound] = await Promise.all([
    agents.ssh?.offeredKeys().catch(() => undefined),
    agents.gpg && listGpgKeys().catch(() => undefined),
  ]);
  const { bound } = sshFound ?? { bound: 0 };
  if (bound > 0) {
    const keys = bound === 1 ? '1 SSH key is' : `${bound} SSH keys are`;
    warnings.push(`${keys} bound to destinations (ssh-add -h) and not offered over a bridge`);
  }
  if (agents.ssh && options.sshKeys?.length) {
    agents.sshKeys = await resolveSshKeys(agents.ssh, options.sshKeys);
  }
  const gpgKeys = agents.gpg && options.gpgKeys?.length ? await resolveGpgKeys(options.gpgKeys) : undefined;
  const offers = {
    gpg: gpgKeys?.count ?? gpgFound?.length ?? null,
    ssh: agents.sshKeys?.length ?? sshFound?.offered.length ?? null,
  };
  const gpgKeygrips = gpgKeys?.keygrips;
  const keyNames = new Map([
    ...(gpgFound ?? []).flatMap(({ keygrips, userId }) =>
      keygrips.map((grip): [string, string] => [grip, userId]),
    ),
    ...(sshFound?.offered ?? []).map(({ blob, comment }): [string, string] => [
      fingerprint(blob),
      comment.toString(),
    ]),
  ]);
  if (agents.gpg || agents.ssh)
    return { agents, warnings, missing, offers, keyNames, ...(gpgKeygrips ? { gpgKeygrips } : {}) };
  throw new BridgeError('NO_HOST_AGENT', {
    what: 'there is nothing to bridge',
    why: warnings.join('; ') || 'both agents were left out',
    fix: warnings.length > 0 ? 'Mend one of them and try again.' : 'Leave --no-gpg or --no-ssh out.',
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
      warnings.push(`${failure.what}: ${failure.why}`);
      missing.push(agent instanceof HostGpgAgent ? 'gpg-agent' : 'ssh-agent');
    }
  }
}
