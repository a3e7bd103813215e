import { BridgeError } from '@gpg-bridge/core/errors';
import { findProgram, type GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import { describeFailure, runProgram } from '@gpg-bridge/core/process/run-program';

/** A key of the host's keyring, as a list shows it. */
export interface HostKey {
  fingerprint: string;
  userId: string;
  /** Whether its secret half is on the host or on its smart card. */
  secret: boolean;
  /** Of the primary key and every subkey: what gpg-agent knows a key by. */
  keygrips: string[];
}

const MAX_LISTING = 64 * 1024 * 1024;

/** The keys of the host's keyring, those with a secret half first. */
export async function listHostKeys(options: GnupgOptions): Promise<HostKey[]> {
  const listing = await list('--list-keys', options);
  const secret = new Set((await list('--list-secret-keys', options)).map((key) => key.fingerprint));
  return listing
    .map((key) => ({ ...key, secret: secret.has(key.fingerprint) }))
    .sort((a, b) => Number(b.secret) - Number(a.secret) || a.userId.localeCompare(b.userId));
}

async function list(what: '--list-keys' | '--list-secret-keys', options: GnupgOptions): Promise<HostKey[]> {
  const gpg = await findProgram('gpg', options);
  const args = ['--batch', '--no-tty', '--no-auto-check-trustdb', '--with-colons', '--with-keygrip', what];
  const result = await runProgram(gpg, args, { env: options.env, maxOutput: MAX_LISTING });
  // Status 2 says that some key could not be read; the others are listed.
  if (result.status !== undefined && !result.aborted) return parseKeys(result.stdout.toString());
  throw new BridgeError('KEY_EXPORT_FAILED', {
    what: "can't list the keys of your keyring",
    why: describeFailure(result),
    fix: `Run \`gpg ${what}\` to see what it says.`,
  });
}

/** Reads gpg's colon listing: a `pub` or `sec` record begins a key, what follows belongs to it. */
export function parseKeys(listing: string): HostKey[] {
  const keys: HostKey[] = [];
  for (const line of listing.split(/\r?\n/)) {
    const fields = line.split(':');
    const value = fields[9] ?? '';
    const key = keys.at(-1);
    if (fields[0] === 'pub' || fields[0] === 'sec') {
      keys.push({ fingerprint: '', userId: '', secret: fields[0] === 'sec', keygrips: [] });
    } else if (fields[0] === 'fpr' && key) key.fingerprint ||= value;
    else if (fields[0] === 'uid' && key) key.userId ||= unescapeField(value);
    else if (fields[0] === 'grp' && key) key.keygrips.push(value);
  }
  return keys.filter((key) => key.fingerprint !== '');
}

/** gpg writes control characters and colons as `\xHH`, byte by byte. */
function unescapeField(field: string): string {
  return field.replace(/\\x([0-9a-f]{2})/gi, (_match, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code < 0x20 || code === 0x7f ? '\uFFFD' : String.fromCharCode(code);
  });
}
