import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { identityOf, sameIdentity } from '../fs/socket-identity.ts';
import { configuredPath } from '../gnupg/agent-conf.ts';
import { listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { leadsTo } from './ssh-from-gpg.ts';

/**
 * The options with which GnuPG uses the home directory of the gpg-agent that listens at an extra socket: those given if
 * that is their own, others if it is the directory of the socket; undefined if it can't be told.
 */
export async function homeOfAgent(
  extraSocket: string,
  options: GnupgOptions = {},
): Promise<GnupgOptions | undefined> {
  const there = await leadsTo(extraSocket, options);
  if (await isExtraSocket(there, options)) return options;
  const home = dirname(await realpath(extraSocket).catch(() => extraSocket));
  const other = { ...options, env: { ...(options.env ?? process.env), GNUPGHOME: home } };
  return (await isExtraSocket(there, other)) ? other : undefined;
}

/** Whether that is the extra socket of these options' home directory. */
async function isExtraSocket(there: string, options: GnupgOptions): Promise<boolean> {
  try {
    const path =
      (await configuredPath('extra-socket', options)) ?? (await listDir('agent-extra-socket', options));
    const own = await leadsTo(path, options);
    const [one, two] = await Promise.all([identityOf(there), identityOf(own)]);
    return there === own || (one !== undefined && two !== undefined && sameIdentity(one, two));
  } catch {
    return false;
  }
}
