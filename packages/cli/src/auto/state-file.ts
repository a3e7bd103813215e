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
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(name, (error as Error).message);
  }
  const repeated = repeatedField(text);
  if (repeated !== undefined)
    throw unreadable(name, `it has ${JSON.stringify(repeated)} twice in one object`);
  return value;
}

/** The first name that an object in a JSON text has twice: only the last value would count. */
function repeatedField(json: string): string | undefined {
  const objects: Set<string>[] = [];
  for (const [token, name] of json.matchAll(/[{}]|("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"/g)) {
    if (token === '{') objects.push(new Set());
    else if (token === '}') objects.pop();
    else if (name !== undefined) {
      const field = JSON.parse(name) as string;
      if (objects.at(-1)?.has(field)) return field;
      objects.at(-1)?.add(field);
    }
  }
  return undefined;
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
