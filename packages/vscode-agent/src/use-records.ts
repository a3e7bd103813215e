import { createHash } from 'node:crypto';
import { chmodSync, closeSync, mkdirSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { openPlainFile, readPlainFile } from '@gpg-bridge/core/fs/plain-file';
import type { KeyUseRecord } from '@gpg-bridge/core/host/key-use-record';
import { type RecordedLine, readUseRecord, UseRecordFile } from '@gpg-bridge/core/host/use-record-file';
import { t } from '@gpg-bridge/vscode-shared/l10n';

/** Windows on one remote that can use keys at the same time. */
const MOST_WINDOWS = 64;
const RECORD_NAME = /^[0-9a-f]{16}(?:\.\d+)?\.uses$/;

/** A file that this window has to itself. */
interface OwnedRecord {
  record: UseRecordFile;
  lock: string;
}

/**
 * The records of what remotes used the private keys of this computer for: a file for each remote. A second window
 * on the same remote writes to another file, since a line is completed in its place.
 */
export class UseRecords {
  readonly #directory: string;
  readonly #own = new Map<string, OwnedRecord>();

  constructor(directory: string) {
    this.#directory = join(directory, 'uses');
  }

  /** The record of the remote that this names at the time of each use. */
  forRemote(authority: () => string): KeyUseRecord {
    return { begin: (use) => this.#of(authority()).begin(use) };
  }

  /** Everything that is on record, oldest first. */
  read(): RecordedLine[] {
    let names: string[];
    try {
      names = readdirSync(this.#directory).filter((name) => RECORD_NAME.test(name));
    } catch {
      return []; // nothing was used yet
    }
    return names
      .flatMap((name) => readUseRecord(join(this.#directory, name)))
      .sort((a, b) => (a.time < b.time ? -1 : 1));
  }

  /** Leaves the files to other windows. */
  dispose(): void {
    for (const { record, lock } of this.#own.values()) {
      record.close();
      rmSync(lock, { force: true });
    }
    this.#own.clear();
  }

  #of(authority: string): UseRecordFile {
    const known = this.#own.get(authority);
    if (known) return known.record;
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    chmodSync(this.#directory, 0o700);
    const name = createHash('sha256').update(authority).digest('hex').slice(0, 16);
    for (let window = 0; window < MOST_WINDOWS; window++) {
      const stem = join(this.#directory, window === 0 ? name : `${name}.${window}`);
      if (!takeLock(`${stem}.lock`)) continue;
      const own = { record: new UseRecordFile(`${stem}.uses`, authority), lock: `${stem}.lock` };
      this.#own.set(authority, own);
      return own.record;
    }
    throw new BridgeError('RECORD_FULL', {
      what: t('the key was not used'),
      why: t('too many windows use keys for this remote'),
      fix: t('Close some of them.'),
    });
  }
}

/** Takes a lock for this process; one of a process that has ended is taken over. */
function takeLock(path: string): boolean {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const file = openPlainFile(path, 'create');
      writeSync(file, `${process.pid}\n`);
      closeSync(file);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      if (isHeld(path)) return false;
      rmSync(path, { force: true });
    }
  }
  return false;
}

function isHeld(path: string): boolean {
  let pid: number;
  try {
    pid = Number.parseInt(readPlainFile(path), 10);
  } catch {
    return false;
  }
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
