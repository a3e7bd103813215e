import { BridgeError } from '../errors.ts';
import type { ListedKey } from '../gnupg/key-listing.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type Gpg, gpgRunner, isKeyName, secretKeys, wholeAddress } from '../gnupg/run-gpg.ts';
import { printable } from '../text/escape.ts';

/** Keys that an error names. */
const MAX_SHOWN = 8;

/**
 * The keygrips of the private keys that a person named as gpg takes names: a user ID, an address, a key ID or a
 * fingerprint stands for a key with all its subkeys, a keygrip for that one key or subkey alone. A name that matches
 * nothing is an error that says what is there.
 */
export async function resolveGpgKeys(
  names: readonly string[],
  options: GnupgOptions = {},
): Promise<ReadonlySet<string>> {
  const gpg = await gpgRunner(options, notListed);
  const all = await secretKeys(gpg, notListed);
  const grips = new Set(all.flatMap(({ keygrips }) => keygrips));
  const chosen = await Promise.all(names.map((name) => gripsOf(name, gpg, grips)));
  const missing = chosen.findIndex((found) => found.length === 0);
  if (missing >= 0) throw unknown(names[missing]!, all);
  return new Set(chosen.flat());
}

async function gripsOf(name: string, gpg: Gpg, grips: ReadonlySet<string>): Promise<string[]> {
  const grip = name.replace(/^&/, '').toUpperCase();
  if (grips.has(grip)) return [grip];
  if (!isKeyName(name)) return [];
  const keys = await secretKeys(gpg, notListed, [wholeAddress(name)]);
  return keys.flatMap(({ keygrips }) => keygrips);
}

function unknown(name: string, all: readonly ListedKey[]): BridgeError {
  const shown = all
    .slice(0, MAX_SHOWN)
    .map(({ fingerprint, userId }) => `${fingerprint} (${printable(userId, 80)})`);
  return new BridgeError('GPG_KEY_UNKNOWN', {
    what: `can't offer the GPG key ${printable(name, 100)}`,
    why: 'the host has no private key of that name',
    fix:
      shown.length === 0
        ? 'It has none at all: see `gpg --list-secret-keys`.'
        : `It has ${shown.join(', ')}${all.length > MAX_SHOWN ? ', …' : ''}.`,
  });
}

function notListed(why: string, cause?: unknown): BridgeError {
  const fix = 'See whether `gpg --list-secret-keys` works.';
  return new BridgeError('GPG_KEY_UNKNOWN', { what: "can't list the host's private keys", why, fix, cause });
}
