import { resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import { chosenKeys } from '@gpg-bridge/core/ssh/identities';
import type { Narrowing } from '../grants/restrictions.ts';
import { chosenGpgKeys } from './chosen-gpg-keys.ts';
import type { HostAgents } from './host-agents.ts';
import type { SshLimits } from './ssh-offers.ts';

/** The keys that a narrower grant leaves; absent: it says nothing about them. */
export interface NarrowedKeys {
  /** Keygrips of GPG keys. */
  gpg?: ReadonlySet<string>;
  /** Fingerprints of SSH keys. */
  ssh?: ReadonlySet<string>;
}

/** What a narrower grant says about keys, looked up as far as a person named them. */
export interface NarrowedTo extends Pick<NarrowedKeys, 'gpg'> {
  /** How many GPG keys, without their subkeys. */
  gpgCount?: number;
  ssh?: SshLimits;
}

/** Looks up the keys that are named; throws for one that is not there. Without an ssh-agent no SSH key is used anyway. */
export async function narrowedKeys(
  narrowing: Narrowing,
  { ssh: agent, gnupg }: HostAgents,
): Promise<NarrowedTo> {
  const { sshKeys } = narrowing;
  const chosen = await chosenGpgKeys(narrowing, gnupg);
  const gpg = chosen?.keygrips;
  const names = sshKeys && agent && (await resolveSshKeys(agent, sshKeys));
  const ssh: SshLimits = {
    ...(names ? { isNamed: chosenKeys(names) } : {}),
    ...(gpg ? { keygrips: gpg } : {}),
    ...(narrowing.gpg === false ? { withoutGpg: true } : {}),
  };
  return {
    ...(chosen ? { gpg: chosen.keygrips, gpgCount: chosen.count } : {}),
    ...(agent && Object.keys(ssh).length > 0 ? { ssh } : {}),
  };
}
