import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { listDir } from './gpgconf.ts';
import type { GnupgOptions } from './programs.ts';

/** The extra socket that gpg-agent.conf names, which gpgconf does not tell; undefined if it names none. */
export async function configuredExtraSocket(options: GnupgOptions = {}): Promise<string | undefined> {
  const { env = process.env, platform = process.platform } = options;
  const home = env.HOME || homedir();
  let text: string;
  try {
    // Only Windows has GnuPG's home somewhere else.
    const place =
      env.GNUPGHOME || (platform === 'win32' ? await listDir('homedir', options) : join(home, '.gnupg'));
    text = await readFile(join(place, 'gpg-agent.conf'), 'utf8');
  } catch {
    return undefined; // most people have none
  }
  const lines = [...text.matchAll(/^[ \t]*(?:--)?extra-socket[ \t]+(.*?)[ \t]*\r?$/gm)];
  const value = lines.at(-1)?.[1]?.replace(/^"(.*)"$/, '$1');
  const path = value?.replace(/^~(?=\/|$)/, () => home);
  // `none` has no socket, and what a relative path is relative to nobody but the agent knows.
  return path !== undefined && isAbsolute(path) ? path : undefined;
}
