import { BridgeError } from '../errors.ts';
import { describeFailure, type ProgramResult } from '../process/run-program.ts';
import type { TargetOperations } from './operations.ts';
import { gnupgPlaces } from './target-gnupg.ts';

/** What programs say when there is nowhere to write to, and the system's code for that. */
const SHORTAGES = [
  [/No space left on device/, 'ENOSPC'],
  [/Dis[ck] quota exceeded/, 'EDQUOT'],
  [/Read-only file system/, 'EROFS'],
] as const;

/** Writes a block into a directory and removes it, in words that are the same everywhere. */
const WRITE_THERE =
  'f=$1/.gpg-bridge-$$; LC_ALL=C dd if=/dev/zero of="$f" bs=4096 count=1; s=$?; rm -f "$f"; exit $s';

/** An import that failed; a cause with a system's code for a shortage is the reason then. */
export function importFailed(why: string, cause?: unknown): BridgeError {
  return new BridgeError('KEY_IMPORT_FAILED', {
    what: "can't import the host's public keys",
    why,
    fix: 'Check that `gpg --list-keys` works in the target and that its home is writable.',
    cause,
  });
}

/** What a program that failed had no room for, as an error with the system's code; undefined if it says nothing of that. */
export function shortageIn({ status, stderr }: ProgramResult): Error | undefined {
  if (status === 0) return undefined;
  for (const line of stderr.split(/\r?\n/)) {
    const [, code] = SHORTAGES.find(([words]) => words.test(line)) ?? [];
    if (code) return Object.assign(new Error(line.trim()), { code });
  }
  return undefined;
}

/** Why a run of gpg could not write to the keyring: what it says, or what writing to the target's home says. */
export async function failedRun(operations: TargetOperations, run: ProgramResult): Promise<BridgeError> {
  // gpg may say in the user's language, or of its daemon, only that it found no keyring to write to.
  const shortage = shortageIn(run) ?? (run.aborted ? undefined : await shortageAtHome(operations));
  return importFailed(describeFailure(run), shortage);
}

async function shortageAtHome(operations: TargetOperations): Promise<Error | undefined> {
  try {
    const { home } = await gnupgPlaces(operations);
    return shortageIn(await operations.run({ program: 'sh', args: ['-c', WRITE_THERE, 'sh', home] }));
  } catch {
    return undefined; // what gpg said is the reason then
  }
}
