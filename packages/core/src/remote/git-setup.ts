import { BridgeError } from '../errors.ts';
import {
  GIT_SETTINGS,
  type GitSettingName,
  type GitSettings,
  listSettings,
  parseSettings,
} from '../git-settings.ts';
import { describeFailure } from '../process/run-program.ts';
import { printable } from '../text/escape.ts';
import type { TargetOperations } from './operations.ts';

/**
 * Tells the git of a target's user what it is not told yet; resolves to what was set. What the user or the machine has
 * set stays, and so does what would not go with it.
 */
export async function setMissingGitSettings(
  operations: TargetOperations,
  wanted: GitSettings,
): Promise<GitSettingName[]> {
  const git = (args: readonly string[]) =>
    operations.run({ program: 'git', args }).catch((cause: Error) => {
      throw notSet(`git can't be started there (${printable(cause.message)})`, cause);
    });
  const listings = await Promise.all([git(listSettings('system')), git(listSettings('global'))]);
  // A file that is not there is said with a bad status.
  const there = Object.assign({}, ...listings.map(({ stdout }) => parseSettings(stdout.toString())));
  const missing = GIT_SETTINGS.filter(
    (name) => wanted[name] && !(name in there) && goesWith(name, there, wanted),
  );
  for (const name of missing) {
    const result = await git(['config', '--global', name, wanted[name]!]);
    if (result.status !== 0) throw notSet(describeFailure(result));
  }
  return missing;
}

/** A signing key means something to its own format only. */
function goesWith(name: GitSettingName, there: GitSettings, wanted: GitSettings): boolean {
  const format = wanted['gpg.format'];
  if (name === 'user.signingkey') return (there['gpg.format'] ?? format) === format;
  return name !== 'gpg.format' || format === 'openpgp' || there['user.signingkey'] === undefined;
}

function notSet(why: string, cause?: unknown): BridgeError {
  return new BridgeError('TARGET_ERROR', {
    what: "can't set up the target's git",
    why,
    fix: 'Install git there, or leave --git out.',
    cause,
  });
}
