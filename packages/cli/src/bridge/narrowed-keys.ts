import { resolveGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import type { HostSshAgent } from '@gpg-bridge/core/host/ssh-agent';
import { listIdentities, resolveSshKeys } from '@gpg-bridge/core/host/ssh-keys';
import { fingerprint } from '@gpg-bridge/core/ssh/key-blob';
import type { Narrowing } from '../grants/restrictions.ts';

/** The keys that a narrower grant names; absent: it says nothing about them. */
export interface NarrowedKeys {
  /** Keygrips of GPG keys. */
  gpg?: ReadonlySet<string>;
  /** Fingerprints of SSH keys. */
  ssh?: ReadonlySet<string>;
}

/** Looks up the keys that are named; throws for one that is not there. Without an ssh-agent no SSH key is used anyway. */
export async function narrowedKeys(
  { gpgKeys, sshKeys }: Narrowing,
  ssh: HostSshAgent | undefined,
): Promise<NarrowedKeys> {
  const gpg = gpgKeys && (await resolveGpgKeys(gpgKeys)).keygrips;
  const named = sshKeys && ssh && (await sshFingerprints(ssh, sshKeys));
  // An ssh-agent that is gpg-agent has the same private keys.
  const granted = gpg && (await ssh?.fingerprintsOf(gpg));
  const both = named && granted ? new Set([...named].filter((print) => granted.has(print))) : undefined;
  const prints = both ?? named ?? granted;
  return { ...(gpg ? { gpg } : {}), ...(prints ? { ssh: prints } : {}) };
}

async function sshFingerprints(agent: HostSshAgent, names: readonly string[]): Promise<Set<string>> {
  const chosen = new Set(await resolveSshKeys(agent, names));
  const identities = await listIdentities(agent);
  const found = identities.filter(
    ({ blob, comment }) => chosen.has(fingerprint(blob)) || chosen.has(comment.toString()),
  );
  return new Set(found.map(({ blob }) => fingerprint(blob)));
}
