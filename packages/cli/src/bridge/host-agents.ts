import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { listGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { chosenKeys, type Identity } from '@gpg-bridge/core/ssh/identities';
import { fingerprint as sshFingerprint } from '@gpg-bridge/core/ssh/key-blob';
import { type BridgeOptions, givenGpgSocket, isGpgImplied, isSshImplied } from '../bridge-options.ts';
import { chosenGpgKeys } from './chosen-gpg-keys.ts';
import type { KeyOwner } from './journal.ts';
import { hasComment, type SshLook, SshOffers, type SshUsages } from './ssh-offers.ts';

/** The host's agents; one that is absent is not bridged. */
export interface HostAgents {
  gpg?: HostGpgAgent;
  ssh?: HostSshAgent;
  /** Which SSH keys are offered; absent: all of them. */
  sshOffers?: SshOffers;
  /** How GnuPG finds the home directory of that gpg-agent; absent: as everywhere else. */
  gnupg?: GnupgOptions | undefined;
}

/** How many private keys a bridge offers; null where there are none to count. */
export interface KeyOffers {
  gpg: number | null;
  ssh: number | null;
  /** The only SSH keys, where something else than --ssh-key chose them; a comment that says nothing is left out. */
  sshKeys?: { fingerprint: string; name?: string }[];
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
  /** Keys that the grant seems to allow and that are left out, with the reason. */
  leftOut: string[];
  /** Those that were wanted and not found. */
  missing: SocketType[];
}

/** What is known after the host's keyring has changed. Keys that a person chose stay the ones that were chosen. */
export async function afterKeyringChange(
  { offers, owners }: KnownKeys,
  options: BridgeOptions,
  gnupg?: GnupgOptions,
): Promise<KnownKeys> {
  const keys = await listGpgKeys(gnupg);
  return {
    offers: {
      ...offers,
      ...(options.gpgKeys?.length || options.gpg === false ? {} : { gpg: keys.length }),
      canSign: keys.some(({ canSign }) => canSign),
    },
    owners: new Map([...owners, ...gpgOwners(keys)]),
  };
}

/** How many SSH keys a bridge offers, and which ones where that is not what a person named. */
export function sshOffersOf(look: SshLook | undefined): Pick<KeyOffers, 'ssh' | 'sshKeys'> {
  if (!look) return { ssh: null };
  const ssh = look.listed ? look.offered.length : null;
  if (!look.isNarrowed) return { ssh };
  const sshKeys = look.offered.map((identity) => ({
    fingerprint: sshFingerprint(identity.blob),
    ...(hasComment(identity) ? { name: identity.comment.toString() } : {}),
  }));
  return { ssh, sshKeys };
}

/** The fingerprints of these keys. */
export function fingerprintsOf(identities: readonly Identity[]): Set<string> {
  return new Set(identities.map(({ blob }) => sshFingerprint(blob)));
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
  usages?: SshUsages,
  gnupg?: GnupgOptions,
): Promise<FoundAgents> {
  const agents: HostAgents = { gnupg };
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
  const gpgKeysChosen = chosenGpgKeys(options, gnupg);
  const [look, gpgKeys, gpgFound] = await Promise.all([
    agents.ssh && lookAt(agents.ssh),
    gpgKeysChosen,
    agents.gpg && listGpgKeys(gnupg).catch(() => undefined),
  ]);
  const bound = look?.bound ?? 0;
  if (bound > 0) {
    const keys = bound === 1 ? '1 SSH key is' : `${bound} SSH keys are`;
    warnings.push(`${keys} bound to destinations (ssh-add -h) and not offered over a bridge`);
  }
  leftOut.push(...(look?.leftOut ?? []));
  const offers = {
    gpg: agents.gpg ? (gpgKeys?.count ?? gpgFound?.length ?? null) : null,
    ...sshOffersOf(look),
    ...(gpgFound ? { canSign: gpgFound.some(({ canSign }) => canSign) } : {}),
  };
  const gpgKeygrips = gpgKeys?.keygrips;
  const sshFingerprints =
    look && (look.isNarrowed || options.sshKeys?.length) ? fingerprintsOf(look.offered) : undefined;
  const sshOwners = (look?.listed ?? []).map(({ blob, comment }): [string, KeyOwner] => [
    sshFingerprint(blob),
    { name: comment.toString() },
  ]);
  const keys = { offers, owners: new Map([...gpgOwners(gpgFound ?? []), ...sshOwners]) };
  if (agents.gpg || agents.ssh)
    return {
      agents,
      warnings,
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

  async function lookAt(agent: HostSshAgent): Promise<SshLook> {
    const names = options.sshKeys?.length ? await resolveSshKeys(agent, options.sshKeys) : undefined;
    const limits = {
      isNamed: names && chosenKeys(names),
      keygrips: (await gpgKeysChosen)?.keygrips,
      withoutGpg: options.gpg === false,
    };
    agents.sshOffers = new SshOffers(agent, limits, usages);
    const found = await agents.sshOffers.look();
    found.apply();
    return found;
  }

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
