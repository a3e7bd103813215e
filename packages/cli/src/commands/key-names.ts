import { readFileSync } from 'node:fs';
import { usage } from './parse.ts';
import type { CommandName } from './specs.ts';

/** A line of a public key's file: its type, the key in base64, and maybe a comment. */
const PUBLIC_KEY_LINE = /^(?:ssh|ecdsa|sk)-\S+\s+([A-Za-z0-9+/=]+)(?:\s|$)/m;

/**
 * The SSH keys that a person names: fingerprints, comments, or `.pub` files, each of them by itself or several with
 * commas. `all` takes an earlier choice back. A file stands for the key in it, which is named by its base64.
 */
export function sshKeyNames(command: CommandName, values: readonly string[]): string[] {
  const names = namesOrAll(
    command,
    'ssh-key',
    values.flatMap((value) => value.split(',')),
  );
  return names.map((name) => (name.endsWith('.pub') ? keyInFile(command, name) : name));
}

/** The keys that a person names one by one; none for `all`, which takes an earlier choice back. */
export function namesOrAll(command: CommandName, option: string, values: readonly string[]): string[] {
  const names = values.map((name) => name.trim());
  if (names.includes('')) throw usage(command, `--${option} takes a key, not nothing`);
  if (!names.includes('all')) return names;
  if (names.length > 1) throw usage(command, `--${option} all stands alone`);
  return [];
}

function keyInFile(command: CommandName, path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw usage(command, `--ssh-key can't read ${path} (${(error as NodeJS.ErrnoException).code})`);
  }
  const key = PUBLIC_KEY_LINE.exec(text)?.[1];
  if (!key) throw usage(command, `--ssh-key ${path} is no public key of SSH`);
  return key;
}
