import { BridgeError } from '../errors.ts';
import { sameIdentity } from '../fs/socket-identity.ts';
import type { LogCallback } from '../log.ts';
import { errorCode, type FileFacts, type TargetOperations } from './operations.ts';

const STICKY = 0o1000;

/** What is known about a directory that was to be made. */
export interface DirectoryFacts {
  facts: FileFacts | undefined;
  /** It lies directly below the root. */
  isTopLevel: boolean;
  /** Why it could not be made. */
  failed: { error: unknown } | undefined;
}

/**
 * Makes sure that a socket's directory is there and that nobody else can enter it: created with 0700,
 * tightened if it is ours and laxer, an error if neither is possible.
 */
export async function ensureSocketDirectory(
  operations: TargetOperations,
  directory: string,
  log: LogCallback,
): Promise<void> {
  await closeDirectory(operations, directory, await makeDirectory(operations, directory), log);
}

/** Makes the directory if it is missing, and looks at it, in one round trip; what is there stays as it is. */
export async function makeDirectory(
  operations: TargetOperations,
  directory: string,
): Promise<DirectoryFacts> {
  const made = operations.makeDirectory(directory).then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  const [facts, above, root] = await Promise.all([
    operations.stat(directory),
    operations.stat(`${directory}/..`), // the real one, where the directory is a link
    operations.stat('/'),
  ]);
  const isTopLevel = above !== undefined && root !== undefined && sameIdentity(above.identity, root.identity);
  return { facts, isTopLevel, failed: await made };
}

/** Closes a directory to everybody else, if it is not yet; throws where it can't be used. */
export async function closeDirectory(
  operations: TargetOperations,
  directory: string,
  { facts, isTopLevel, failed }: DirectoryFacts,
  log: LogCallback,
): Promise<void> {
  if (failed) throw directoryUnusable(directory, failed.error);
  if (facts?.kind !== 'directory') throw unusable(directory, 'it is not a directory', 'Remove that file.');
  if ((facts.mode & 0o077) === 0) return;
  await tighten(operations, directory, facts, isTopLevel, log);
}

/** What a file operation's failure in a socket's directory means for the person. */
export function directoryUnusable(directory: string, cause: unknown): BridgeError {
  if (cause instanceof BridgeError) return cause;
  const why = REASONS[errorCode(cause)] ?? (cause as Error).message;
  return unusable(directory, why, 'Make it a writable directory of your own with mode 0700.', cause);
}

const REASONS: Partial<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'part of its path is not a directory',
  EEXIST: 'it is not a directory',
  ELOOP: 'its links lead in a circle',
};

async function tighten(
  operations: TargetOperations,
  directory: string,
  { mode, uid }: FileFacts,
  isTopLevel: boolean,
  log: LogCallback,
): Promise<void> {
  const shown = `0${mode.toString(8)}`;
  if (uid !== operations.facts.uid) {
    const why = `it belongs to user ${uid} and others can enter it (mode ${shown})`;
    throw unusable(directory, why, `Let its owner run \`chmod 700 ${directory}\`.`);
  }
  // Root owns /tmp and /run: closing such a directory to everybody else would break the system.
  if (mode & STICKY || isTopLevel) {
    const why = `it is shared with other users (mode ${shown})`;
    throw unusable(directory, why, 'Use a directory of your own with mode 0700.');
  }
  const closed = mode & 0o700;
  await operations.chmod(directory, closed).catch((cause: unknown) => {
    throw directoryUnusable(directory, cause);
  });
  log(`${directory} had mode ${shown}: set to 0${closed.toString(8)}, so that only you can enter it`, 'warn');
}

function unusable(directory: string, why: string, fix: string, cause?: unknown): BridgeError {
  return new BridgeError('SOCKET_DIR_UNUSABLE', {
    what: `can't put a socket into ${directory}`,
    why,
    fix,
    cause,
  });
}
