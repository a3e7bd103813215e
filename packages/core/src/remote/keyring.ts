import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BridgeError } from '../errors.ts';
import { listDir } from '../gnupg/gpgconf.ts';
import { findProgram, type GnupgOptions } from '../gnupg/programs.ts';
import { describeFailure, type ProgramResult, runProgram } from '../process/run-program.ts';
import { makePrivateDirectory } from './private-directory.ts';

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

const TIMEOUT_MS = 120_000;
/** gpg reports three lines of some 100 bytes a key. */
const MAX_STATUS_BYTES = 32 * 1024 * 1024;

const FINGERPRINT = /^(?:[0-9A-F]{40}|[0-9A-F]{64})$/;

/** Ownertrust values of gpg's own listing. */
const NEVER = 3;
const ULTIMATE = 6;

/** Bit 0 of IMPORT_OK's reason: the key is new. The others tell what a known key gained; 0 is nothing. */
const NEW_KEY = 1;

/** Without keep-ownertrust gpg clears what the user said about a key before they had it. */
const IMPORT = ['--status-fd', '1', '--import-options', 'keep-ownertrust'];

/** Options with which a user has put the keyring or the trust database somewhere else. */
const OTHER_KEYRING =
  /^\s*(?:--)?(?:no-default-keyring|primary-keyring|keyring|no-keyring|trustdb-name|use-keyboxd)\b/m;

/**
 * Adds public keys to the user's keyring, and ultimate trust for those listed. Nothing that is there is
 * overwritten, and no agent is started or asked.
 */
export async function importPublicKeys(
  { keys, trust }: KeysToImport,
  options: GnupgOptions = {},
): Promise<ImportResult> {
  const stray = trust.find((fingerprint) => !FINGERPRINT.test(fingerprint));
  if (stray !== undefined) throw importFailed(`${JSON.stringify(stray.slice(0, 80))} is not a fingerprint`);
  const result = { added: 0, updated: 0, unchanged: 0 };
  if (keys.length === 0 && trust.length === 0) return result;
  const gpg = await keyringProgram(options);
  if (keys.length > 0) {
    const run = await gpg([...IMPORT, '--import'], keys);
    for (const [, reason] of run.stdout.toString('latin1').matchAll(/^\[GNUPG:\] IMPORT_OK (\d+) /gm)) {
      result[Number(reason) === 0 ? 'unchanged' : Number(reason) & NEW_KEY ? 'added' : 'updated']++;
    }
    // gpg also ends with a bad status when one key among many can't be used.
    const imported = result.added + result.updated + result.unchanged;
    if (run.aborted || (run.status !== 0 && imported === 0)) throw importFailed(describeFailure(run));
  }
  await trustUltimately(gpg, trust);
  return result;
}

/** Whether the user has private keys of their own, which can't be used while the bridge is up. */
export async function hasPrivateKeys(options: GnupgOptions = {}): Promise<boolean> {
  const directory = join(await listDir('homedir', options), 'private-keys-v1.d');
  const files = await readdir(directory).catch(() => []);
  return files.some((name) => name.endsWith('.key'));
}

type Gpg = (args: readonly string[], input?: Buffer) => Promise<ProgramResult>;

/** Runs gpg on the user's keyring and trust database. */
async function keyringProgram(options: GnupgOptions): Promise<Gpg> {
  const program = await findProgram('gpg', options);
  const home = await listDir('homedir', options);
  // gpg makes the default home by itself, but never one that was given to it.
  await makePrivateDirectory(home).catch((cause) => {
    throw importFailed(`the directory ${home} can't be made (${(cause as Error).message})`, cause);
  });
  const place = (await keepsKeysElsewhere(home)) ? [] : await placeOf(home);
  const fixed = ['--batch', '--no-tty', '--quiet', '--no-autostart', '--no-auto-check-trustdb', ...place];
  return async (args, input = Buffer.alloc(0)) => {
    try {
      const limits = { timeoutMs: TIMEOUT_MS, maxOutput: MAX_STATUS_BYTES };
      return await runProgram(program, [...fixed, ...args], { env: options.env, input, ...limits });
    } catch (cause) {
      throw importFailed(`${program} can't be started`, cause);
    }
  };
}

/**
 * The files themselves, under a home that does not exist. In its own home gpg asks the agent about every
 * new key, which behind a bridge is a round trip to the host for each.
 */
async function placeOf(home: string): Promise<string[]> {
  const isOldFormat = (await exists(join(home, 'pubring.gpg'))) && !(await exists(join(home, 'pubring.kbx')));
  return [
    '--homedir',
    join(home, '.no-agent-here'),
    '--no-options',
    '--no-default-keyring',
    '--keyring',
    join(home, isOldFormat ? 'pubring.gpg' : 'pubring.kbx'),
    '--trustdb-name',
    join(home, 'trustdb.gpg'),
    '--no-random-seed-file',
  ];
}

async function keepsKeysElsewhere(home: string): Promise<boolean> {
  for (const name of ['gpg.conf', 'common.conf']) {
    const text = await readFile(join(home, name), 'latin1').catch(() => '');
    if (OTHER_KEYRING.test(text)) return true;
  }
  return false;
}

async function trustUltimately(gpg: Gpg, fingerprints: readonly string[]): Promise<void> {
  if (fingerprints.length === 0) return;
  // Without a trust database yet this fails, and there is nothing to keep.
  const listing = (await gpg(['--export-ownertrust'])).stdout.toString('latin1');
  const known = new Map(
    [...listing.matchAll(/^([0-9A-F]+):(\d+):/gm)].map(([, key, value]) => [key, Number(value)]),
  );
  // A user who said "never" about a key meant it.
  const gaining = fingerprints.filter((key) => ![NEVER, ULTIMATE].includes(known.get(key) ?? 0));
  if (gaining.length === 0) return;
  const input = Buffer.from(gaining.map((key) => `${key}:${ULTIMATE}:\n`).join(''));
  const run = await gpg(['--import-ownertrust'], input);
  if (run.status !== 0) throw importFailed(describeFailure(run));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function importFailed(why: string, cause?: unknown): BridgeError {
  return new BridgeError('KEY_IMPORT_FAILED', {
    what: "can't import the host's public keys",
    why,
    fix: 'Check that `gpg --list-keys` works in the target and that its home is writable.',
    cause,
  });
}
