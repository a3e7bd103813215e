import { constants } from 'node:fs';
import { access, chmod, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { BridgeError } from '../errors.ts';
import type { LogCallback } from '../log.ts';
import { makePrivateDirectory } from './private-directory.ts';

const STICKY = 0o1000;

/**
 * Makes sure that a socket's directory is there and that nobody else can enter it: created with 0700,
 * tightened if it is ours and laxer, an error if neither is possible.
 */
export async function ensureSocketDirectory(directory: string, log: LogCallback): Promise<void> {
  try {
    await makePrivateDirectory(directory);
    const facts = await stat(directory);
    if (!facts.isDirectory()) throw unusable(directory, 'it is not a directory', 'Remove that file.');
    if (facts.mode & 0o077) await tighten(directory, facts, log);
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw directoryUnusable(directory, cause);
  }
}

/** What a file operation's failure in a socket's directory means for the person. */
export function directoryUnusable(directory: string, cause: unknown): BridgeError {
  if (cause instanceof BridgeError) return cause;
  const why = REASONS[(cause as NodeJS.ErrnoException).code ?? ''] ?? (cause as Error).message;
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
  directory: string,
  { mode, uid }: { mode: number; uid: number },
  log: LogCallback,
): Promise<void> {
  const shown = `0${(mode & 0o7777).toString(8)}`;
  const real = await realpath(directory);
  if (uid !== process.getuid?.()) {
    const why = `it belongs to user ${uid} and others can enter it (mode ${shown})`;
    throw unusable(directory, why, `Let its owner run \`chmod 700 ${directory}\`.`);
  }
  // Root owns /tmp and /run: closing such a directory to everybody else would break the system.
  if (mode & STICKY || dirname(real) === '/') {
    const why = `it is shared with other users (mode ${shown})`;
    throw unusable(directory, why, 'Use a directory of your own with mode 0700.');
  }
  await chmod(directory, mode & 0o700);
  log(
    `${directory} had mode ${shown}: set to 0${(mode & 0o700).toString(8)}, so that only you can enter it`,
    'warn',
  );
}

function unusable(directory: string, why: string, fix: string, cause?: unknown): BridgeError {
  return new BridgeError('SOCKET_DIR_UNUSABLE', {
    what: `can't put a socket into ${directory}`,
    why,
    fix,
    cause,
  });
}
