import { accessSync, constants, existsSync } from 'node:fs';
import { makeDirectories } from '@gpg-bridge/core/fs/make-directories';
import { makePrivate, unusableState } from './state-dir.ts';
import { restrictToOwner } from './windows-acl.ts';

/** Makes sure that a directory for state exists, is private and can be written to. */
export function ensureStateDirectory(directory: string): void {
  try {
    const isNew = !existsSync(directory);
    makeDirectories(directory);
    makePrivate(directory);
    // What Windows keeps for a person under their profile is theirs from the start; another place may be anybody's.
    if (process.platform === 'win32' && (isNew || process.env.GPG_BRIDGE_STATE_DIR)) restrictOnce(directory);
    accessSync(directory, constants.W_OK);
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
}

const restricted = new Set<string>();

function restrictOnce(directory: string): void {
  if (restricted.has(directory)) return;
  restrictToOwner(directory);
  restricted.add(directory);
}
