import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { BridgeError } from '../errors.ts';
import { type GitSettings, listSettings, parseSettings } from '../git-settings.ts';
import type { ListedKey } from '../gnupg/key-listing.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { gpgRunner, secretKeys } from '../gnupg/run-gpg.ts';
import { runProgram } from '../process/run-program.ts';

/** Which keys a target can sign with. */
export interface UsableKeys {
  gpg: boolean;
  ssh: boolean;
  /** The only GPG keys, by their keygrips. */
  keygrips?: ReadonlySet<string> | undefined;
}

const USER_ID = /^(.*?)\s*(?:\([^()]*\)\s*)?(?:<([^<>]+)>)?$/;
/** A public key of SSH as git takes it in place of a file. */
const PUBLIC_KEY = /^(?:key::)?((?:ssh|ecdsa|sk)-\S+ [A-Za-z0-9+/=]+)/;

/** Who signs on the host, and with what: as its git says, and where that says nothing as its keys do. */
export async function hostGitSettings(keys: UsableKeys, options: GnupgOptions = {}): Promise<GitSettings> {
  const own = await ownSettings(options.env ?? process.env);
  const format = own['gpg.format'] ?? 'openpgp';
  const key = keys.gpg ? await signingKey(own, keys.keygrips, options) : undefined;
  const [, name, email] = USER_ID.exec(key?.userId ?? '') ?? [];
  const signing =
    format === 'ssh'
      ? keys.ssh && sshKey(own['user.signingkey'], options.env ?? process.env)
      : keys.gpg && (own['user.signingkey'] ?? (format === 'openpgp' ? key?.fingerprint : undefined));
  const identity = {
    'user.name': own['user.name'] ?? name,
    'user.email': own['user.email'] ?? email,
    ...(signing ? { 'user.signingkey': signing, 'gpg.format': format } : {}),
  };
  return Object.fromEntries(Object.entries(identity).filter(([, value]) => value));
}

async function ownSettings(env: NodeJS.ProcessEnv): Promise<GitSettings> {
  // A host without git has no settings.
  const result = await runProgram('git', listSettings('global'), { env }).catch(() => undefined);
  return parseSettings(result?.status === 0 ? result.stdout.toString() : '');
}

/** The key of the address that git uses, or the first one. */
async function signingKey(
  own: GitSettings,
  keygrips: ReadonlySet<string> | undefined,
  options: GnupgOptions,
): Promise<ListedKey | undefined> {
  const gpg = await gpgRunner(options, notListed);
  const usable = (await secretKeys(gpg, notListed)).filter(
    (key) => !key.revoked && (!keygrips || key.keygrips.some((grip) => keygrips.has(grip))),
  );
  return usable.find(({ userId }) => userId.endsWith(`<${own['user.email']}>`)) ?? usable[0];
}

/** A key of SSH in words that mean the same in a target, where the host's file is not. */
function sshKey(setting: string | undefined, env: NodeJS.ProcessEnv): string | undefined {
  if (!setting) return undefined;
  const literal = PUBLIC_KEY.exec(setting);
  if (literal) return `key::${literal[1]}`;
  const path = setting.replace(/^~(?=\/)/, () => env.HOME || homedir());
  try {
    const text = readFileSync(join(path.endsWith('.pub') ? path : `${path}.pub`), 'utf8');
    const key = PUBLIC_KEY.exec(text);
    return key ? `key::${key[1]}` : undefined;
  } catch {
    return undefined;
  }
}

function notListed(why: string, cause?: unknown): BridgeError {
  const fix = 'See whether `gpg --list-secret-keys` works.';
  return new BridgeError('GPG_KEY_UNKNOWN', { what: "can't list the host's private keys", why, fix, cause });
}
