import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { readPlainFile } from '@gpg-bridge/core/fs/plain-file';
import { whileClaimed } from '../daemon/claim.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import { checkStateDirectory, recordDirectory, unusableState } from '../daemon/state-dir.ts';

/** The files of `auto`, beside the record of key uses. */
export type StateFileName = 'auto-rules.json' | 'auto-waiting.json';

/** What a file says; undefined if there is none. Throws for one that can't be read, or others could have written. */
export function readState(name: StateFileName): unknown {
  const directory = recordDirectory();
  checkStateDirectory(directory);
  let text: string;
  try {
    text = readPlainFile(join(directory, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unusableState(directory, error as Error);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw unreadable(name, (error as Error).message);
  }
}

/** Replaces a file as a whole: a reader sees the old one or the new one. */
export function writeState(name: StateFileName, value: unknown): void {
  const directory = recordDirectory();
  ensureStateDirectory(directory);
  const path = join(directory, name);
  try {
    rmSync(`${path}.new`, { force: true });
    writeFileSync(`${path}.new`, `${JSON.stringify(value, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
}

/** Runs what changes a file while no other process does. */
export function whileLocked<T>(change: () => T): Promise<T> {
  const directory = recordDirectory();
  ensureStateDirectory(directory);
  return whileClaimed(join(directory, 'auto-rules.lock'), change);
}

/** The error for a file that does not say what it should; `meant` asks about a likely mistake. */
export function unreadable(name: StateFileName, why: string, meant?: string): BridgeError {
  const path = join(recordDirectory(), name);
  return new BridgeError('RULES_UNREADABLE', {
    what: `${path} is not valid`,
    why,
    fix: `${meant ? `${meant} ` : ''}Correct the file, or remove it and add the rules again.`,
  });
}
