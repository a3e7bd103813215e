import { lstatSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { readPlainFile } from '@gpg-bridge/core/fs/plain-file';
import { ensureStateDirectory } from './make-state-dir.ts';
import { checkStateDirectory, recordDirectory, unusableState } from './state-dir.ts';

/** A pause of every bridge. */
export interface Pause {
  /** ISO time at which it began. */
  since: string;
  /** ISO time at which it ends by itself; absent: when somebody resumes. */
  until?: string;
}

/** Beside the record of uses: a pause outlives the login as well as every daemon. */
const FILE = 'paused';

/** Where a pause is noted. */
export function pausePath(): string {
  return join(recordDirectory(), FILE);
}

/** The pause that holds now, if one does. A file that can't be read or understood is one without an end. */
export function currentPause(now = Date.now(), path = pausePath()): Pause | undefined {
  let text: string;
  try {
    // Asked several times for each use of a key: without a pause it must not cost an exception.
    if (!lstatSync(path, { throwIfNoEntry: false })) return undefined;
    text = readPlainFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? undefined : { since: new Date(now).toISOString() };
  }
  const pause = parsePause(text);
  return pause.until !== undefined && Date.parse(pause.until) <= now ? undefined : pause;
}

/** Pauses every bridge of this user, for so long or until `endPause`. */
export function beginPause(seconds: number | undefined, now = Date.now()): Pause {
  const pause: Pause = {
    since: new Date(now).toISOString(),
    ...(seconds === undefined ? {} : { until: new Date(now + seconds * 1_000).toISOString() }),
  };
  const directory = recordDirectory();
  ensureStateDirectory(directory);
  const path = pausePath();
  try {
    rmSync(`${path}.new`, { force: true });
    writeFileSync(`${path}.new`, `${JSON.stringify(pause)}\n`, { mode: 0o600, flag: 'wx' });
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
  return pause;
}

/** Ends a pause; false if there was none. */
export function endPause(): boolean {
  const directory = recordDirectory();
  checkStateDirectory(directory);
  const wasPaused = currentPause() !== undefined;
  try {
    rmSync(pausePath(), { force: true });
  } catch (error) {
    throw unusableState(directory, error as Error);
  }
  return wasPaused;
}

/** Why no key may be used while bridges are paused. */
export function pausedError(pause: Pause): BridgeError {
  return new BridgeError('PAUSED', {
    what: 'the key was not used',
    why: `bridges are paused on the host ${pausedUntil(pause)}`,
    fix: 'Run `gpg-bridge resume` there.',
  });
}

/** Until when, in words. */
export function pausedUntil({ until }: Pause): string {
  return until === undefined ? 'until they are resumed' : `until ${until.replace(/\.\d+Z$/, 'Z')}`;
}

function parsePause(text: string): Pause {
  try {
    const { since, until } = JSON.parse(text) as Record<string, unknown>;
    return {
      since: isTime(since) ? since : new Date(0).toISOString(),
      ...(isTime(until) ? { until } : {}),
    };
  } catch {
    return { since: new Date(0).toISOString() };
  }
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}
