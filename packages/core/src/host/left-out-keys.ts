import { printable } from '../text/escape.ts';
import type { GpgGrant } from './gpg-grant.ts';
import { type KeyUsage, lostUses, UNKNOWN_USAGE } from './key-usage.ts';

/** Characters of a name that are shown. */
const NAME_CHARACTERS = 80;

/**
 * One line on the keys that a target can't use for what they are for, since they can also do what the target may not;
 * undefined if there are none. `owners` has the name of each private key, by keygrip.
 */
export function leftOutKeys(
  owners: Iterable<readonly [keygrip: string, name: string]>,
  usages: ReadonlyMap<string, KeyUsage>,
  grant: GpgGrant,
): string | undefined {
  const lines = new Set<string>();
  for (const [keygrip, name] of owners) {
    if (!/^[0-9A-F]{40}$/.test(keygrip)) continue; // an SSH key's fingerprint
    if (grant.keygrips && !grant.keygrips.has(keygrip)) continue;
    const lost = lostUses(usages.get(keygrip) ?? UNKNOWN_USAGE, grant);
    if (lost.length === 0) continue;
    const deeds = lost.map(({ deed }) => deed).join(' or ');
    lines.add(`the key of ${printable(name, NAME_CHARACTERS)} can't ${deeds} here: ${lost[0]!.why}`);
  }
  return lines.size === 0 ? undefined : [...lines].join('; ');
}
