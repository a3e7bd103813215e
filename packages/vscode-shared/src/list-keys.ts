import { BridgeError } from '@gpg-bridge/core/errors';
import { type ListedKey, parseKeyListing } from '@gpg-bridge/core/gnupg/key-listing';
import { findProgram, type GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { describeFailure, runProgram } from '@gpg-bridge/core/process/run-program';
import { t } from './l10n.ts';

const MAX_LISTING = 64 * 1024 * 1024;

/** The keys of the host's keyring, those with a secret half first. */
export async function listHostKeys(options: GnupgOptions): Promise<ListedKey[]> {
  const listing = await list(['--list-keys'], options);
  const secret = new Set((await list(['--list-secret-keys'], options)).map((key) => key.fingerprint));
  return listing
    .map((key) => ({ ...key, secret: secret.has(key.fingerprint) }))
    .sort((a, b) => Number(b.secret) - Number(a.secret) || a.userId.localeCompare(b.userId));
}

/** The public keys of a keyring; no agent is asked or started. */
export function listPublicKeys(options: GnupgOptions): Promise<ListedKey[]> {
  return list(['--no-autostart', '--list-keys'], options);
}

/** What keeps a key from being used, in words. */
export function flawsOf({ revoked, expired }: Pick<ListedKey, 'revoked' | 'expired'>): string[] {
  return [...(revoked ? [t('revoked')] : []), ...(expired ? [t('expired')] : [])];
}

/** A fingerprint as gpg prints it, four characters at a time. */
export function inGroups(fingerprint: string): string {
  return fingerprint.replace(/(.{4})(?=.)/g, '$1 ');
}

async function list(what: string[], options: GnupgOptions): Promise<ListedKey[]> {
  const gpg = await findProgram('gpg', options);
  const args = ['--batch', '--no-tty', '--no-auto-check-trustdb', '--with-colons', '--with-keygrip', ...what];
  const result = await runProgram(gpg, args, { env: options.env, maxOutput: MAX_LISTING });
  // Status 2 says that some key could not be read; the others are listed.
  if (result.status !== undefined && !result.aborted) return parseKeyListing(result.stdout.toString());
  throw new BridgeError('KEY_EXPORT_FAILED', {
    what: "can't list the keys of your keyring",
    why: describeFailure(result),
    fix: `Run \`gpg ${what.at(-1)}\` to see what it says.`,
  });
}
