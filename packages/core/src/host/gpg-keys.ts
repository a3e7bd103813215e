import { BridgeError } from '../errors.ts';
import type { KeyDetails, ListedKey } from '../gnupg/key-listing.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type Gpg, gpgRunner, isKeyName, secretKeys, wholeAddress } from '../gnupg/run-gpg.ts';
import { printable } from '../text/escape.ts';

/** Keys that an error names. */
const MAX_SHOWN = 8;

/** The private keys that a person chose. */
export interface ChosenGpgKeys {
  /** Of the keys and of their subkeys. */
  keygrips: ReadonlySet<string>;
  /** Without their subkeys. */
  count: number;
}

/**
 * The private keys that a person named as gpg takes names: a user ID, an address, a key ID or a
 * fingerprint stands for a key with all its subkeys, a keygrip for that one key or subkey alone. A name that matches
 * nothing is an error that says what is there.
 */
export async function resolveGpgKeys(
  names: readonly string[],
  options: GnupgOptions = {},
): Promise<ChosenGpgKeys> {
  const gpg = await gpgRunner(options, notListed);
  const all = await secretKeys(gpg, notListed);
  const grips = new Set(all.flatMap(({ keygrips }) => keygrips));
  const chosen = await Promise.all(names.map((name) => gripsOf(name, gpg, grips)));
  const missing = chosen.findIndex((found) => found.length === 0);
  if (missing >= 0) throw unknown(names[missing]!, all);
  const keygrips = new Set(chosen.flat());
  return { keygrips, count: all.filter((key) => key.keygrips.some((grip) => keygrips.has(grip))).length };
}

/** The private keys that the host has, with its smart cards. */
export async function listGpgKeys(options: GnupgOptions = {}): Promise<KeyDetails[]> {
  return secretKeys(await gpgRunner(options, notListed), notListed);
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
