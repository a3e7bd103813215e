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

/** Where the keys are. */
export interface KeyPlace {
  home: string;
  /** keyboxd keeps them, not a file. */
  isKeyboxd: boolean;
}

/**
 * Looks for the keys with these fingerprints. They are exported there and listed here, by the host's gpg: to list keys
 * gpg makes a trust database, and in a home without a keyring that, too.
 */
export async function collectKeyFacts(
  operations: TargetOperations,
  { home, isKeyboxd }: KeyPlace,
  fingerprints: readonly string[],
  hostGpg: string,
): Promise<TargetKeys> {
  const files = await operations.list(home).catch((): string[] => []);
  const hasKeyring = files.some((name) => name === 'pubring.kbx' || name === 'pubring.gpg');
  if (fingerprints.length === 0 || !(hasKeyring || isKeyboxd)) return NO_KEYS;
  const gpg = await openKeyring(operations, home, { look: true });
  const { stdout, status } = await gpg(
    ['--lock-never', '--no-armor', '--export', '--', ...fingerprints],
    TIMEOUT_SECONDS,
  );
  if (isKeyboxd && status !== 0) throw new Error('keyboxd does not run, and is not started for this');
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
