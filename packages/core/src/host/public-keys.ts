import { BridgeError } from '../errors.ts';
import type { KeyFilter } from '../gnupg/key-filter.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type Gpg, gpgRunner, isKeyName, secretKeys, wholeAddress } from '../gnupg/run-gpg.ts';
import { describeFailure } from '../process/run-program.ts';

/** Public keys for a target's keyring. */
export interface PublicKeys {
  /** As `gpg --export` writes them, in binary. */
  keys: Buffer;
  /** Fingerprints, among the exported keys, of those whose secret half is on the host or its smart card. */
  trust: string[];
  count: number;
}

/** Names per run of gpg: a Windows command line has room for 32,767 characters. */
const NAMES_PER_RUN = 200;

/** Exports the host's public keys that `filter` asks for. */
export async function exportPublicKeys(filter: KeyFilter, options: GnupgOptions = {}): Promise<PublicKeys> {
  if (filter === 'none') return { keys: Buffer.alloc(0), trust: [], count: 0 };
  const gpg = await gpgRunner(options, exportFailed);
  const secret = await secretKeys(gpg, exportFailed);
  const names =
    filter === 'pairs'
      ? secret.map(({ fingerprint }) => fingerprint)
      : filter === 'all'
        ? undefined
        : filter.map(wholeAddress);
  if (names?.length === 0) return { keys: Buffer.alloc(0), trust: [], count: 0 };

  if (filter !== 'pairs') for (const name of names ?? []) await checkKnown(gpg, name);

  const chunks: Buffer[] = [];
  const exported = new Set<string>();
  for (const batch of names ? batches(names) : [[]]) {
    const result = await gpg(['--no-armor', '--status-fd', '2', '--export', '--', ...batch]);
    if (result.status !== 0) throw exportFailed(describeFailure(result));
    chunks.push(result.stdout);
    for (const [, fingerprint = ''] of result.stderr.matchAll(/^\[GNUPG:\] EXPORTED ([0-9A-F]+)/gm)) {
      exported.add(fingerprint);
    }
  }
  const trust = secret
    .filter(({ fingerprint, revoked }) => exported.has(fingerprint) && !revoked)
    .map(({ fingerprint }) => fingerprint);
  return { keys: Buffer.concat(chunks), trust, count: exported.size };
}

/** `gpg --export` succeeds without the names that it does not know, so each is looked up first. */
async function checkKnown(gpg: Gpg, name: string): Promise<void> {
  if (!isKeyName(name)) {
    throw exportFailed('a key name is empty, too long or has control characters in it');
  }
  const result = await gpg(['--with-colons', '--list-keys', '--', name]);
  if (result.status !== 0) {
    throw exportFailed(`gpg knows no public key "${name.replace(/^<(.*)>$/, '$1')}"`);
  }
}

function* batches(names: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < names.length; at += NAMES_PER_RUN) yield names.slice(at, at + NAMES_PER_RUN);
}

function exportFailed(why: string, cause?: unknown): BridgeError {
  const fix = 'Check the names with `gpg --list-keys`.';
  return new BridgeError('KEY_EXPORT_FAILED', { what: "can't export the public keys", why, fix, cause });
}
