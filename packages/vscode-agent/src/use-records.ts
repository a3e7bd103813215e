import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyUseRecord } from '@gpg-bridge/core/host/key-use-record';
import { type RecordedLine, readUseRecord, UseRecordFile } from '@gpg-bridge/core/host/use-record-file';

/** A record's files by month; also those of earlier versions, which had one for each window. */
const RECORD_NAME = /^(?:[0-9a-f]{32}\.\d{4}-\d{2}|[0-9a-f]{16}(?:\.\d+)?)\.uses$/;

/** The records of what remotes used the private keys of this computer for: one for each remote, of all its windows. */
export class UseRecords {
  readonly #directory: string;
  readonly #own = new Map<string, UseRecordFile>();

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

  dispose(): void {
    for (const record of this.#own.values()) record.close();
    this.#own.clear();
  }

  #of(authority: string): UseRecordFile {
    const known = this.#own.get(authority);
    if (known) return known;
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    chmodSync(this.#directory, 0o700);
    // 128 bits: nobody finds two remotes with one name.
    const name = createHash('sha256').update(authority).digest('hex').slice(0, 32);
    const record = new UseRecordFile(join(this.#directory, `${name}.uses`), authority);
    this.#own.set(authority, record);
    return record;
  }
}
