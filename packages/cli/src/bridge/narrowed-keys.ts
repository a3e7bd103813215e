import { resolveGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import { resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import { chosenKeys } from '@gpg-bridge/core/ssh/identities';
import type { Narrowing } from '../grants/restrictions.ts';
import { fingerprintsOf, type HostAgents } from './host-agents.ts';
import type { SshLook } from './ssh-offers.ts';

/** The keys that a narrower grant leaves; absent: it says nothing about them. */
export interface NarrowedKeys {
  /** Keygrips of GPG keys. */
  gpg?: ReadonlySet<string>;
  /** Fingerprints of SSH keys. */
  ssh?: ReadonlySet<string>;
  /** What the ssh-agent offers then; applied when the grant is. */
  look?: SshLook;
}

/** Looks up the keys that are left; throws for one that is named and not there. */
export async function narrowedKeys(
  { gpg: hasGpg, gpgKeys, sshKeys }: Narrowing,
  { ssh: agent, sshOffers, gnupg }: HostAgents,
): Promise<NarrowedKeys> {
  const gpg = gpgKeys && (await resolveGpgKeys(gpgKeys, gnupg)).keygrips;
  const ofGpg = gpg ? { gpg } : {};
  if (!agent || !sshOffers) return ofGpg; // no SSH key is used anyway
  const names = sshKeys && (await resolveSshKeys(agent, sshKeys));
  if (!gpg && !names && hasGpg !== false) return ofGpg;
  const look = await sshOffers.look({
    ...(names ? { isNamed: chosenKeys(names) } : {}),
    ...(gpg ? { keygrips: gpg } : {}),
    ...(hasGpg === false ? { withoutGpg: true } : {}),
  });
  const isFixed = look.isNarrowed || names !== undefined;
  return { ...ofGpg, look, ...(isFixed ? { ssh: fingerprintsOf(look.offered) } : {}) };
}
