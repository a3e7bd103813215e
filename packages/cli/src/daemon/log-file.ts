import { appendFileSync, renameSync, statSync } from 'node:fs';
import type { LogLevel } from '@gpg-bridge/core/log';
import type { JournalEntry } from '../bridge/journal.ts';

/** A line of a bridge's log: words for a person, or something that was asked of the host's keys. */
export type LogLine = ({ time: string; level: LogLevel; message: string } | JournalEntry) & { time: string };

/** The log is moved aside when it gets this large; one older part is kept. */
const MAX_LOG_BYTES = 4 * 1024 * 1024;

/**
 * A bridge's log: one JSON object a line, appended at once, so that nothing is lost when the daemon is
 * killed. Lines are few: nothing on the way of a client's bytes writes one.
 */
export class LogFile {
  #size: number;

  constructor(readonly path: string) {
    this.#size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Appends a line; a disk that is full must not end the bridge. */
  append(line: LogLine): void {
    const text = `${JSON.stringify(line)}\n`;
    try {
      if (this.#size > MAX_LOG_BYTES) {
        renameSync(this.path, `${this.path}.1`);
        this.#size = 0;
      }
      appendFileSync(this.path, text, { mode: 0o600 });
      this.#size += text.length;
    } catch {
      // There is nowhere to say so.
    }
  }

  /** Appends words for a person. */
  say(message: string, level: LogLevel): void {
    this.append({ time: new Date().toISOString(), level, message });
  }
}
