import type { BridgeError } from '../errors.ts';
import { describeFailure, type ProgramResult, runProgram } from '../process/run-program.ts';
import { type KeyDetails, parseKeyListing } from './key-listing.ts';
import { findProgram, type GnupgOptions } from './programs.ts';

/** Runs the host's gpg with these arguments, without asking anybody anything. */
export type Gpg = (args: readonly string[]) => Promise<ProgramResult>;

/** The error of whoever runs gpg. */
export type GpgFailed = (why: string, cause?: unknown) => BridgeError;

const MAX_EXPORT = 64 * 1024 * 1024;
/** gpg reports each exported key on its own line. */
const MAX_STATUS = 16 * 1024 * 1024;
const TIMEOUT_MS = 60_000;
const LONGEST_NAME = 256;

/** Finds gpg and returns how to run it. */
export async function gpgRunner(options: GnupgOptions, failed: GpgFailed): Promise<Gpg> {
  const program = await findProgram('gpg', options);
  const limits = { timeoutMs: TIMEOUT_MS, maxOutput: MAX_EXPORT, maxStderr: MAX_STATUS };
  return async (args) => {
    try {
      const fixed = ['--batch', '--no-tty', '--no-auto-check-trustdb'];
      return await runProgram(program, [...fixed, ...args], { env: options.env, ...limits });
    } catch (cause) {
      throw failed(`${program} can't be started`, cause);
    }
  };
}

/** The primary keys that `gpg -K` lists: it lists one as soon as any part of it is here or on a card. */
export async function secretKeys(
  gpg: Gpg,
  failed: GpgFailed,
  names: readonly string[] = [],
): Promise<KeyDetails[]> {
  const result = await gpg(['--with-colons', '--with-keygrip', '--list-secret-keys', '--', ...names]);
  // An empty keyring is success, and status 2 says that some other secret key could not be read, or none is called so.
  if (result.status === undefined || result.aborted) throw failed(describeFailure(result));
  return parseKeyListing(result.stdout.toString());
}

/** gpg finds a name anywhere in a user ID: `ed@example.com` in `revoked@example.com`, too. In brackets it is whole. */
export function wholeAddress(name: string): string {
  return /^[^\s<>@=]+@[^\s<>@]+$/.test(name) ? `<${name}>` : name;
}

/** Whether gpg can be asked for a key by this name. */
export function isKeyName(name: string): boolean {
  return name !== '' && name.length <= LONGEST_NAME && !/[\x00-\x1f\x7f]/.test(name);
}
