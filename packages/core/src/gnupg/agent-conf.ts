import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { listDir } from './gpgconf.ts';
import type { GnupgOptions } from './programs.ts';

/** Options of gpg-agent.conf whose values are paths and which gpgconf does not tell. */
export type AgentPath = 'extra-socket' | 'pinentry-program';

/** The path that gpg-agent.conf gives for an option; undefined if it gives none. */
export async function configuredPath(
  option: AgentPath,
  options: GnupgOptions = {},
): Promise<string | undefined> {
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
  const lines = [...text.matchAll(/^[ \t]*(?:--)?([a-z-]+)[ \t]+(.*?)[ \t]*\r?$/gm)];
  const value = lines.findLast(([, name]) => name === option)?.[2]?.replace(/^"(.*)"$/, '$1');
  const path = value?.replace(/^~(?=\/|$)/, () => home);
  // `none` has no socket, and what a relative path is relative to nobody but the agent knows.
  return path !== undefined && isAbsolute(path) ? path : undefined;
}
