import { join } from 'node:path/posix';
import { type KeyDetails, parseKeyListing } from '@gpg-bridge/core/gnupg/key-listing';
import { runProgram } from '@gpg-bridge/core/process/run-program';
import { openKeyring } from '@gpg-bridge/core/remote/keyring';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';

/** What the target's keyring has of the host's keys. */
export interface TargetKeys {
  listed: KeyDetails[];
  /** gpg's numbers for ownertrust, by fingerprint. */
  trust: ReadonlyMap<string, number>;
}

const TIMEOUT_SECONDS = 30;
const NO_KEYS: TargetKeys = { listed: [], trust: new Map() };

/**
 * Looks for the keys with these fingerprints. They are exported there and listed here, by the host's gpg: to list keys
 * gpg makes a trust database, and in a home without a keyring that, too.
 */
export async function collectKeyFacts(
  operations: TargetOperations,
  home: string,
  fingerprints: readonly string[],
  hostGpg: string,
): Promise<TargetKeys> {
  const [files, common] = await Promise.all([
    operations.list(home).catch((): string[] => []),
    operations.read(join(home, 'common.conf')).then(String, () => ''),
  ]);
  const hasKeyring = files.some((name) => name === 'pubring.kbx' || name === 'pubring.gpg');
  if (fingerprints.length === 0 || !(hasKeyring || /^\s*use-keyboxd\b/m.test(common))) return NO_KEYS;
  const gpg = await openKeyring(operations, home);
  const { stdout } = await gpg(
    ['--lock-never', '--no-armor', '--export', '--', ...fingerprints],
    TIMEOUT_SECONDS,
  );
  const listed = await listHere(hostGpg, stdout);
  if (!files.includes('trustdb.gpg')) return { listed, trust: new Map() };
  const listing = (await gpg(['--lock-never', '--export-ownertrust'], TIMEOUT_SECONDS)).stdout.toString(
    'latin1',
  );
  const trust = new Map(
    [...listing.matchAll(/^([0-9A-F]+):(\d+):/gm)].map(([, key = '', value]) => [key, Number(value)]),
  );
  return { listed, trust };
}

async function listHere(gpg: string, keys: Buffer): Promise<KeyDetails[]> {
  if (keys.length === 0) return [];
  const args = ['--batch', '--no-tty', '--with-colons', '--show-keys'];
  const { stdout } = await runProgram(gpg, args, { input: keys, maxOutput: 16 * 1024 * 1024 });
  return parseKeyListing(stdout.toString());
}
