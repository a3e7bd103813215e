import { join } from 'node:path/posix';
import { BridgeError } from '../errors.ts';
import type { ProgramResult } from '../process/run-program.ts';
import { failedRun, importFailed, shortageIn } from './import-failure.ts';
import type { TargetOperations } from './operations.ts';
import { gnupgPlaces } from './target-gnupg.ts';

/** Public keys from the host, and the fingerprints of those whose secret half is there. */
export interface KeysToImport {
  /** OpenPGP packets, as `gpg --export` writes them. */
  keys: Buffer;
  trust: readonly string[];
}

/** What became of the keys, in keys. */
export interface ImportResult {
  added: number;
  updated: number;
  unchanged: number;
}

const IMPORT_SECONDS = 3_600;
const TRUST_SECONDS = 60;

const FINGERPRINT = /^(?:[0-9A-F]{40}|[0-9A-F]{64})$/;

/** Ownertrust values of gpg's own listing. */
const NEVER = 3;
const ULTIMATE = 6;

/** Without keep-ownertrust gpg clears what the user said about a key before they had it. */
const IMPORT = ['--status-fd', '1', '--import-options', 'keep-ownertrust', '--import'];
/** What gpg sums up with; the counts are in this order, and the tenth to twelfth are about secret keys. */
const IMPORT_RESULT = /^\[GNUPG:\] IMPORT_RES (\d+) (\d+) (\d+) \d+ (\d+)(?: \d+){7} (\d+) (\d+)/m;

/** Options with which a user has put the keyring or the trust database somewhere else. */
const OTHER_KEYRING =
  /^\s*(?:--)?(?:no-default-keyring|primary-keyring|keyring|no-keyring|trustdb-name|use-keyboxd)\b/m;

/**
 * Adds public keys to the user's keyring, and ultimate trust for those listed. Nothing that is there is
 * overwritten, and no agent is started or asked.
 */
export async function importPublicKeys(
  { keys, trust }: KeysToImport,
  operations: TargetOperations,
  keyring?: Promise<Keyring>,
): Promise<ImportResult> {
  const stray = trust.find((fingerprint) => !FINGERPRINT.test(fingerprint));
  if (stray !== undefined) throw importFailed(`${JSON.stringify(stray.slice(0, 80))} is not a fingerprint`);
  if (keys.length === 0 && trust.length === 0) return { added: 0, updated: 0, unchanged: 0 };
  const gpg = await (keyring ?? openKeyring(operations, (await gnupgPlaces(operations)).home));
  const result = { added: 0, updated: 0, unchanged: 0 };
  if (keys.length > 0) {
    const run = await gpg(IMPORT, IMPORT_SECONDS, keys);
    Object.assign(result, countsIn(run.stdout.toString('latin1')));
    // gpg also ends with a bad status when one key among many can't be used; not so when the disk fills up meanwhile.
    const imported = result.added + result.updated + result.unchanged;
    if (run.aborted || (run.status !== 0 && imported === 0) || shortageIn(run)) {
      throw await failedRun(operations, run);
    }
  }
  await trustUltimately(operations, gpg, trust);
  return result;
}

function countsIn(status: string): ImportResult {
  const [, seen, withoutUserId, added, unchanged, skipped, notImported] = (
    IMPORT_RESULT.exec(status) ?? []
  ).map(Number) as number[];
  if (seen === undefined) return { added: 0, updated: 0, unchanged: 0 };
  const useless = withoutUserId! + skipped! + notImported!;
  return {
    added: added!,
    unchanged: unchanged!,
    updated: Math.max(0, seen - useless - added! - unchanged!),
  };
}

/** Whether the user has private keys of their own, which can't be used while the bridge is up. */
export async function hasPrivateKeys(operations: TargetOperations, home?: string): Promise<boolean> {
  const directory = join(home ?? (await gnupgPlaces(operations)).home, 'private-keys-v1.d');
  const files = await operations.list(directory).catch(() => []);
  return files.some((name) => name.endsWith('.key'));
}

/** Runs gpg on the user's keyring and trust database. */
export type Keyring = (
  args: readonly string[],
  timeoutSeconds: number,
  input?: Buffer,
) => Promise<ProgramResult>;

/** common.conf has the public keys kept by a daemon, which gpg starts only where it may start an agent, too. */
const KEYBOXD = /^\s*(?:--)?use-keyboxd\b/m;

/** It would keep the output of whoever starts it open. Before 2.3 there is none, and gpg does not know the option. */
const START_KEYBOXD = 'gpgconf --launch keyboxd </dev/null >/dev/null 2>&1';

/** Finds out where a user's keyring is, in one round trip. With `look` nothing is started to get at it. */
export async function openKeyring(
  operations: TargetOperations,
  home: string,
  { look = false } = {},
): Promise<Keyring> {
  // gpg makes the default home by itself, but never one that was given to it.
  const made = operations.makeDirectory(home).catch((cause) => {
    throw importFailed(`the directory ${home} can't be made (${(cause as Error).message})`, cause);
  });
  const [, { options, usesKeyboxd }] = await Promise.all([made, keyringOptions(operations, home)]);
  if (usesKeyboxd && !look) {
    await operations.run({ program: 'sh', args: ['-c', START_KEYBOXD] }).catch(() => {});
  }
  const fixed = ['--batch', '--no-tty', '--quiet', '--no-autostart', '--no-auto-check-trustdb', ...options];
  return async (args, timeoutSeconds, input) => {
    try {
      return await operations.run({ program: 'gpg', args: [...fixed, ...args], input, timeoutSeconds });
    } catch (cause) {
      if (cause instanceof BridgeError) throw cause;
      throw importFailed(`gpg can't be started (${(cause as Error).message})`, cause);
    }
  };
}

/**
 * The files themselves, under a home that does not exist. In its own home gpg asks the agent about every
 * new key, which behind a bridge is a round trip to the host for each. Not where the user's own options say
 * where the keys are.
 */
async function keyringOptions(
  operations: TargetOperations,
  home: string,
): Promise<{ options: string[]; usesKeyboxd: boolean }> {
  const [oldRing, newRing, ...configurations] = await Promise.all([
    operations.stat(join(home, 'pubring.gpg')),
    operations.stat(join(home, 'pubring.kbx')),
    ...['gpg.conf', 'common.conf'].map((name) =>
      operations.read(join(home, name)).catch(() => Buffer.alloc(0)),
    ),
  ]);
  const texts = configurations.map((text) => text.toString('latin1'));
  const usesKeyboxd = texts.some((text) => KEYBOXD.test(text));
  if (texts.some((text) => OTHER_KEYRING.test(text))) return { options: [], usesKeyboxd };
  const options = [
    '--homedir',
    join(home, '.no-agent-here'),
    '--no-options',
    '--no-default-keyring',
    '--keyring',
    join(home, oldRing && !newRing ? 'pubring.gpg' : 'pubring.kbx'),
    '--trustdb-name',
    join(home, 'trustdb.gpg'),
    '--no-random-seed-file',
  ];
  return { options, usesKeyboxd };
}

async function trustUltimately(
  operations: TargetOperations,
  gpg: Keyring,
  fingerprints: readonly string[],
): Promise<void> {
  if (fingerprints.length === 0) return;
  // Without a trust database yet this fails, and there is nothing to keep.
  const listing = (await gpg(['--export-ownertrust'], TRUST_SECONDS)).stdout.toString('latin1');
  const known = new Map(
    [...listing.matchAll(/^([0-9A-F]+):(\d+):/gm)].map(([, key, value]) => [key, Number(value)]),
  );
  // A user who said "never" about a key meant it.
  const gaining = fingerprints.filter((key) => ![NEVER, ULTIMATE].includes(known.get(key) ?? 0));
  if (gaining.length === 0) return;
  const input = Buffer.from(gaining.map((key) => `${key}:${ULTIMATE}:\n`).join(''));
  const run = await gpg(['--import-ownertrust'], TRUST_SECONDS, input);
  if (run.status !== 0) throw await failedRun(operations, run);
}
