import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { listGpgKeys, resolveGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import type { KeyUsages } from '@gpg-bridge/core/host/key-usages';
import { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { allOf, chosenKeys, type KeyChoice } from '@gpg-bridge/core/ssh/identities';
import { signsWithoutDigest, fingerprint as sshFingerprint } from '@gpg-bridge/core/ssh/key-blob';
import { printable } from '@gpg-bridge/core/text/escape';
import { type BridgeOptions, givenGpgSocket, isGpgImplied, isSshImplied } from '../bridge-options.ts';
import type { KeyOwner } from './journal.ts';

/** The host's agents; one that is absent is not bridged. */
export interface HostAgents {
  gpg?: HostGpgAgent;
  ssh?: HostSshAgent;
  /** Which SSH keys are offered; absent: all of them. */
  sshOffers?: KeyChoice;
}

/** How many private keys a bridge offers; null where there are none to count. */
export interface KeyOffers {
  gpg: number | null;
  ssh: number | null;
  /** Whether the host has a GPG key that can sign now: one that has neither expired nor been revoked. */
  canSign?: boolean;
}

/** What is known of the host's private keys. */
export interface KnownKeys {
  /** How many of each kind can be used; null where there are none to count. */
  offers: KeyOffers;
  /** Whose they are: OpenPGP keys by keygrip, SSH keys by fingerprint. */
  owners: ReadonlyMap<string, KeyOwner>;
}

/** The agents that answer, and what to tell the person about the others. */
export interface FoundAgents {
  agents: HostAgents;
  /** The only GPG keys that can be used, by their keygrips; absent: all of them. */
  gpgKeygrips?: ReadonlySet<string>;
  /** The only SSH keys that are offered, by their fingerprints; absent: all of them. */
  sshFingerprints?: ReadonlySet<string>;
  keys: KnownKeys;
  warnings: string[];
  /** Keys that the grant seems to allow and that are left out, with the reason; among the warnings, too. */
  leftOut: string[];
  /** Those that were wanted and not found. */
  missing: SocketType[];
}

/** What is known after the host's keyring has changed. Keys that a person chose stay the ones that were chosen. */
export async function afterKeyringChange(
  { offers, owners }: KnownKeys,
  options: BridgeOptions,
): Promise<KnownKeys> {
  const keys = await listGpgKeys();
  return {
    offers: {
      ...offers,
      ...(options.gpgKeys?.length ? {} : { gpg: keys.length }),
      canSign: keys.some(({ canSign }) => canSign),
    },
    owners: new Map([...owners, ...gpgOwners(keys)]),
  };
}

/** Whose OpenPGP keys are, by the keygrips of the keys and their subkeys. */
export function gpgOwners(keys: readonly ListedKey[]): [keygrip: string, owner: KeyOwner][] {
  return keys.flatMap(({ keygrips, userId: name, fingerprint }) =>
    keygrips.map((grip): [string, KeyOwner] => [grip, { name, fingerprint }]),
  );
}

/**
 * Finds the host's agents. One that is missing is a warning, or an error if a flag asked for it or a bridge has it
 * that this one is to replace; it is an error, too, if none is left.
 */
export async function findHostAgents(
  options: BridgeOptions,
  log: LogCallback,
  kept: readonly SocketType[] = [],
  usages?: Pick<KeyUsages, 'refresh' | 'alsoSigns'>,
): Promise<FoundAgents> {
  const agents: HostAgents = {};
  const warnings: string[] = [];
  const leftOut: string[] = [];
  const missing: SocketType[] = [];
  const gpg = new HostGpgAgent({ log, socketPath: givenGpgSocket(options) });
  const ssh = new HostSshAgent({ log, fromGpg: options.sshFromGpg ?? false });
  await Promise.all([
    tryAgent(gpg, options.gpg ?? (isGpgImplied(options) || isKept('gpg-agent')), (agent) => {
      agents.gpg = agent;
    }),
    // --ssh-from-gpg and --ssh-key ask for the ssh-agent, as --ssh does.
    tryAgent(ssh, options.ssh ?? (isSshImplied(options) || isKept('ssh-agent')), (agent) => {
      agents.ssh = agent;
    }),
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
  const sshNames =
    agents.ssh && options.sshKeys?.length ? await resolveSshKeys(agents.ssh, options.sshKeys) : undefined;
  const gpgKeys = agents.gpg && options.gpgKeys?.length ? await resolveGpgKeys(options.gpgKeys) : undefined;
  // The same private keys: what --gpg-key leaves out must not be used by way of SSH.
  const sshPrints = gpgKeys && (await agents.ssh?.fingerprintsOf(gpgKeys.keygrips));
  const isNamed = sshNames && chosenKeys(sshNames);
  const isGranted = sshPrints && chosenKeys([...sshPrints]);
  // A digest that is signed over SSH can be that of an OpenPGP document: without GPG such a key would still make one.
  const onlyLogsIn: KeyChoice | undefined =
    options.gpg === false && agents.ssh && usages
      ? ({ blob }) => signsWithoutDigest(blob) || !usages.alsoSigns(sshFingerprint(blob))
      : undefined;
  if (onlyLogsIn) await usages?.refresh();
  if (isNamed || isGranted || onlyLogsIn) agents.sshOffers = allOf(isNamed, isGranted, onlyLogsIn);
  const sshOffered = sshFound?.offered.filter(agents.sshOffers ?? (() => true));
  const ungranted = isGranted ? (sshFound?.offered ?? []).filter((key) => !isGranted(key)).length : 0;
  if (ungranted > 0) {
    const keys = ungranted === 1 ? '1 SSH key' : `${ungranted} SSH keys`;
    leftOut.push(`--gpg-key leaves out ${keys} of gpg-agent, which is also your ssh-agent`);
  }
  for (const { comment } of onlyLogsIn ? (sshFound?.offered ?? []).filter((key) => !onlyLogsIn(key)) : []) {
    const name = printable(comment, 80);
    leftOut.push(
      `the SSH key ${name} can't log in here: it also makes OpenPGP signatures, which --no-gpg excludes`,
    );
  }
  const offers = {
    gpg: gpgKeys?.count ?? gpgFound?.length ?? null,
    ssh: sshOffered?.length ?? null,
    ...(gpgFound ? { canSign: gpgFound.some(({ canSign }) => canSign) } : {}),
  };
  const gpgKeygrips = gpgKeys?.keygrips;
  const sshFingerprints =
    agents.sshOffers && new Set((sshOffered ?? []).map(({ blob }) => sshFingerprint(blob)));
  const sshOwners = (sshFound?.offered ?? []).map(({ blob, comment }): [string, KeyOwner] => [
    sshFingerprint(blob),
    { name: comment.toString() },
  ]);
  const keys = { offers, owners: new Map([...gpgOwners(gpgFound ?? []), ...sshOwners]) };
  if (agents.gpg || agents.ssh)
    return {
      agents,
      warnings: [...warnings, ...leftOut],
      leftOut,
      missing,
      keys,
      ...(gpgKeygrips ? { gpgKeygrips } : {}),
      ...(sshFingerprints ? { sshFingerprints } : {}),
    };
  throw new BridgeError('NO_HOST_AGENT', {
    what: 'there is nothing to bridge',
    why: warnings.join('; ') || 'both agents were left out',
    fix: warnings.length > 0 ? 'Mend one of them and try again.' : 'Leave --no-gpg or --no-ssh out.',
  });

  function isKept(type: SocketType): true | undefined {
    return kept.includes(type) || undefined;
  }

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
