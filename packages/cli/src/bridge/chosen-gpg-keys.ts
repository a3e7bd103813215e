import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { type ChosenGpgKeys, resolveGpgKeys } from '@gpg-bridge/core/host/gpg-keys';
import type { BridgeOptions } from '../bridge-options.ts';

const NONE: ChosenGpgKeys = { keygrips: new Set(), count: 0 };

/**
 * The GPG keys that a person named; undefined if none was. Throws for one that is not there, unless GPG is not bridged:
 * then only the SSH keys of gpg-agent depend on it, and none of these is left.
 */
export async function chosenGpgKeys(
  { gpg, gpgKeys = [] }: Pick<BridgeOptions, 'gpg' | 'gpgKeys'>,
  gnupg?: GnupgOptions,
): Promise<ChosenGpgKeys | undefined> {
  if (gpgKeys.length === 0) return undefined;
  return resolveGpgKeys(gpgKeys, gnupg).catch((error: unknown) => {
    if (gpg === false) return NONE;
    throw error;
  });
}
