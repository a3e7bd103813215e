import { toBridgeError } from '@gpg-bridge/core/errors';
import { hostGitSettings, type UsableKeys } from '@gpg-bridge/core/host/git-identity';
import type { LogCallback } from '@gpg-bridge/core/log';
import { setMissingGitSettings } from '@gpg-bridge/core/remote/git-setup';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { printable } from '@gpg-bridge/core/text/escape';

/** What was done to a target's git, or why not, in words for a person. */
export interface GitSetup {
  notes: string[];
  warnings: string[];
}

/** Tells a target's git what the host's git and keys say, as far as it is not told yet. */
export async function setUpGit(
  operations: TargetOperations,
  keys: UsableKeys,
  env: NodeJS.ProcessEnv | undefined,
  log: LogCallback,
): Promise<GitSetup> {
  try {
    const settings = await hostGitSettings(keys, env ? { env } : {});
    const set = await setMissingGitSettings(operations, settings);
    const note =
      set.length === 0
        ? 'git there had all of its settings already'
        : `set in git there: ${set.map((name) => `${name} = ${printable(settings[name]!)}`).join(', ')}`;
    log(note, 'info');
    return { notes: [note], warnings: [] };
  } catch (error) {
    const { message } = toBridgeError(error, "can't set up the target's git");
    log(message, 'warn');
    return { notes: [], warnings: [message] };
  }
}
