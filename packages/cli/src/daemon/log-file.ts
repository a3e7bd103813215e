import { closeSync, lstatSync, renameSync, writeFileSync } from 'node:fs';
import { isKeyUse } from '@gpg-bridge/core/assuan/private-key-commands';
import { toBridgeError } from '@gpg-bridge/core/errors';
import { openPlainFile } from '@gpg-bridge/core/fs/plain-file';
import type { LogLevel } from '@gpg-bridge/core/log';
import { jsonLine, printable } from '@gpg-bridge/core/text/escape';
import type { JournalEntry } from '../bridge/journal.ts';

/** A line of a bridge's log: words for a person, or something that was asked of the host's keys. */
export type LogLine = ({ level: LogLevel; message: string } | LoggedOperation) & {
  time: string;
  /** The bridge's target, as a person names it. */
  target?: string;
};

/** An entry of the journal; older versions did not write all of it. */
type LoggedOperation = Omit<JournalEntry, 'operation' | 'person'> &
  Partial<Pick<JournalEntry, 'operation' | 'person'>>;

/** The log is moved aside when it gets this large; one older part is kept. */
const MAX_LOG_BYTES = 4 * 1024 * 1024;

/** Characters of a message: a target or an engine can say any number. */
const MAX_MESSAGE = 4_000;

/** Where the part of a log is that was moved aside. */
export function olderPart(path: string): string {
  return `${path}.1`;
}

/**
 * How many messages may be written at once, and how many more each second. A target can cause messages at any
 * rate, and must not push the record of operations out of the log.
 */
const MESSAGES_AT_ONCE = 1_000;
const MESSAGES_PER_SECOND = 10;

/** How many lines of one kind may be written now, and how many were left out. */
class LineBudget {
  leftOut = 0;
  #allowed = MESSAGES_AT_ONCE;
  #allowedAt: number;

  constructor(now: number) {
    this.#allowedAt = now;
  }

  takes(now: number): boolean {
    const seconds = Math.max(0, now - this.#allowedAt) / 1_000;
    this.#allowed = Math.min(MESSAGES_AT_ONCE, this.#allowed + seconds * MESSAGES_PER_SECOND);
    this.#allowedAt = now;
    if (this.#allowed < 1) {
      this.leftOut++;
      return false;
    }
    this.#allowed--;
    return true;
  }
}

/** Appends to a file that is opened for it: somebody may have moved it away meanwhile. */
function appendTo(path: string, text: string): void {
  const file = openPlainFile(path, 'append');
  try {
    writeFileSync(file, text);
  } finally {
    closeSync(file);
  }
}

/**
 * A bridge's log: one JSON object a line, appended at once, so that nothing is lost when the daemon is
 * killed. Lines are few: nothing on the way of a client's bytes writes one, except with --verbose.
 */
export class LogFile {
  #size: number;
  readonly #now: () => number;
  readonly #budgets: Record<'keyUses' | 'others', LineBudget>;
  #problem: string | undefined;

  constructor(
    public path: string,
    now = Date.now,
    /** Told with every line. */
    private readonly target?: () => string,
  ) {
    this.#now = now;
    this.#budgets = { keyUses: new LineBudget(now()), others: new LineBudget(now()) };
    this.#size = lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Why the last line could not be written. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Appends a line; a disk that is full must not end the bridge. */
  append(line: LogLine): void {
    const { time, ...rest } = line;
    const text = `${jsonLine({ time, ...(this.target ? { target: this.target() } : {}), ...rest })}\n`;
    try {
      if (this.#size > MAX_LOG_BYTES) {
        renameSync(this.path, olderPart(this.path));
        this.#size = 0;
      }
      appendTo(this.path, text);
      this.#size += text.length;
      this.#problem = undefined;
    } catch (error) {
      // The log itself can't be written: the status says it instead.
      this.#problem = toBridgeError(error, `can't write ${this.path}`).message;
    }
  }

  /** Goes on at another path, with what was written so far. */
  moveTo(path: string): void {
    try {
      renameSync(this.path, path);
    } catch {
      this.#size = lstatSync(path, { throwIfNoEntry: false })?.size ?? 0; // somebody removed it
    }
    this.path = path;
  }

  /** Appends words for a person, unless there have been far too many. */
  say(message: string, level: LogLevel): void {
    const text = printable(message, MAX_MESSAGE);
    this.appendLimited({ time: new Date(this.#now()).toISOString(), level, message: text });
  }

  /** Appends a line that a target can cause, unless there have been far too many; others can't crowd out uses of keys. */
  appendLimited(line: LogLine): void {
    const budget = this.#budgets['command' in line && usesKey(line.command) ? 'keyUses' : 'others'];
    if (!budget.takes(this.#now())) return;
    if (budget.leftOut > 0) {
      const message = `${budget.leftOut} lines were left out: too many came`;
      this.append({ time: line.time, level: 'warn', message });
      budget.leftOut = 0;
    }
    this.append(line);
  }
}

function usesKey(command: string): boolean {
  return isKeyUse(command) || command === 'sign';
}
