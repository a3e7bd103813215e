import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, lstatSync, readdirSync, readSync, rmSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { BridgeError } from '../errors.ts';
import { openPlainFile, readPlainFile } from '../fs/plain-file.ts';
import { jsonLine } from '../text/escape.ts';
import type { KeyUse, KeyUseRecord, RecordedUse } from './key-use-record.ts';

/** One line of the record: a use and what became of it, or many of them folded into one. */
export interface RecordedLine {
  /** ISO time at which it began. */
  time: string;
  target: string;
  session: number | string;
  command: string;
  /** `signature` for an SSH signature that is not a login. */
  purpose?: 'signature';
  key?: string;
  /** The second key of a decryption. */
  another?: string;
  /** What the key can do apart from what the command is called: `a key that also signs`. */
  note?: string;
  /** `begun` until it has ended. */
  outcome: string;
  durationMs: number;
  /** Uses of the same kind in that minute which this line stands for. */
  count?: number;
}

/** What one target may fill; then it is refused, and nobody else. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Uses of one key in a minute that get a line each; more are counted in one. */
const LINES_A_MINUTE = 60;
const MINUTE_MS = 60_000;
/** A month's file is removed when its last line is older: by time alone, never to make room. */
const KEPT_MS = 180 * 24 * 60 * MINUTE_MS;
/** Room for the changing part of a line, so that it can be written over in place. */
const TAIL_BYTES = 64;
/** How each line begins. JSON escapes the quotes in a text, so it is nowhere else. */
const LINE_START = '{"time":';

/**
 * The record of what one target used the host's private keys for. A line is written before the use begins, and
 * completed in place before its answer leaves; nothing that a target does removes one.
 *
 * Several processes may write one record without a lock: the kernel appends each line whole, a line is changed by its
 * writer alone, and no file is ever rewritten. Each month has a separate file, so that old lines can go with theirs.
 */
export class UseRecordFile implements KeyUseRecord {
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** In every line, so that a writer finds its own among equal ones of another process. */
  readonly #writer = randomBytes(6).toString('hex');
  /** Opened by the first use: a bridge over which nothing was used leaves no file. */
  #current: MonthFile | undefined;
  /** By command and key: the current minute and how many uses it has had. */
  readonly #minutes = new Map<string, Minute>();

  constructor(
    readonly path: string,
    /** As a person names it. */
    private readonly target: string,
    { maxBytes = MAX_BYTES, now = Date.now }: { maxBytes?: number; now?: () => number } = {},
  ) {
    this.#maxBytes = maxBytes;
    this.#now = now;
  }

  begin(use: KeyUse): RecordedUse {
    const minute = this.#minute(use);
    minute.uses += 1;
    if (minute.uses > LINES_A_MINUTE) return this.#fold(use, minute);
    const line = this.#append(use, 'begun');
    line.file.begun.add(line);
    return {
      finish: (outcome, durationMs) => {
        if (!line.file.begun.delete(line)) return;
        try {
          this.#complete(line, outcome, durationMs);
        } finally {
          this.#closeUnlessUsed(line.file);
        }
      },
    };
  }

  close(): void {
    const file = this.#current;
    this.#current = undefined;
    if (file) this.#closeUnlessUsed(file);
  }

  /** A file that a person has moved away stays open until the uses that began in it have ended. */
  #closeUnlessUsed(file: MonthFile): void {
    if (file === this.#current || file.begun.size > 0) return;
    closeSync(file.append);
    closeSync(file.update);
  }

  /** Counts a use in the minute's one line for all that are too many. */
  #fold(use: KeyUse, minute: Minute): RecordedUse {
    const file = this.#open(monthPath(this.path, new Date(use.time).toISOString()));
    const known = minute.folded?.line.file === file ? minute.folded : undefined;
    const folded = known ?? { line: this.#append(use, 'folded'), count: 0 };
    minute.folded = folded;
    folded.count += 1;
    this.#complete(folded.line, 'folded', 0, folded.count);
    return { finish: () => {} };
  }

  #minute({ time, command, purpose, key, another }: KeyUse): Minute {
    const name = [command, purpose, key, another].join(' ');
    const start = Math.floor(time / MINUTE_MS);
    const known = this.#minutes.get(name);
    if (known?.start === start) return known;
    const minute: Minute = { start, uses: 0 };
    // A target can name any number of keys.
    if (this.#minutes.size > 1_000) this.#minutes.clear();
    this.#minutes.set(name, minute);
    return minute;
  }

  #append({ time, session, command, purpose, key, another, note }: KeyUse, outcome: string): Line {
    const iso = new Date(time).toISOString();
    const head = jsonLine({
      time: iso,
      target: this.target,
      session,
      command,
      ...(purpose === undefined ? {} : { purpose }),
      ...(key === undefined ? {} : { key }),
      ...(another === undefined ? {} : { another }),
      ...(note === undefined ? {} : { note }),
      writer: this.#writer,
    }).slice(0, -1);
    const bytes = Buffer.from(`${head}${tail(outcome, 0)}\n`);
    const file = this.#open(monthPath(this.path, iso));
    const before = fstatSync(file.append).size;
    if (file.others + before + bytes.length > this.#maxBytes) throw this.#full();
    try {
      // A half line on a full disk stays, since others may have written behind it; readers pass over it.
      if (writeSync(file.append, bytes) < bytes.length) throw new Error('it was written in part');
      const after = fstatSync(file.append).size;
      const start = after === before + bytes.length ? before : find(file.update, bytes, before, after);
      const line: Line = { file, tailAt: start + Buffer.byteLength(head) };
      if (file.others + start + bytes.length <= this.#maxBytes) return line;
      this.#complete(line, 'refused', 0);
    } catch (error) {
      throw unwritable(this.path, error);
    }
    throw this.#full(); // another process took the last room meanwhile
  }

  #complete({ file, tailAt }: Line, outcome: string, durationMs: number, count?: number): void {
    try {
      writeAt(file.update, Buffer.from(tail(outcome, durationMs, count)), tailAt);
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  #open(path: string): MonthFile {
    try {
      if (this.#current?.path === path && isAt(path, this.#current.append)) return this.#current;
      this.close();
      const others = removeOld(this.path, this.#now() - KEPT_MS).filter((other) => other !== path);
      const append = openPlainFile(path, 'append');
      try {
        // The kernel writes at the end whatever the position in append mode; completing needs another descriptor.
        const update = openPlainFile(path, 'update');
        this.#current = {
          path,
          append,
          update,
          others: others.reduce((sum, other) => sum + sizeOf(other), 0),
          begun: new Set(),
        };
      } catch (error) {
        closeSync(append);
        throw error;
      }
      return this.#current;
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  /** The files are looked at again by the next use: a person may have moved them away by then. */
  #full(): BridgeError {
    this.close();
    return new BridgeError('RECORD_FULL', {
      what: 'the key was not used',
      why: `the record of what this target used your keys for is full (${this.path})`,
      fix: 'Look at it on the host, and move it away if that is all right.',
    });
  }
}

/** The file of one month, as a writer has it open. */
interface MonthFile {
  path: string;
  append: number;
  update: number;
  /** Bytes in the record's other files, which no longer grow. */
  others: number;
  /** Lines of uses that have not ended. */
  begun: Set<Line>;
}

interface Minute {
  start: number;
  uses: number;
  folded?: { line: Line; count: number };
}

interface Line {
  file: MonthFile;
  /** Where the part begins that is written over. */
  tailAt: number;
}

/** The part of a line that changes, always of the same length: spaces before the closing brace are JSON too. */
function tail(outcome: string, durationMs: number, count?: number): string {
  const facts = `,"outcome":"${outcome}","durationMs":${Math.round(durationMs)}${count ? `,"count":${count}` : ''}`;
  return `${facts.padEnd(TAIL_BYTES - 1)}}`;
}

/** The lines of a record, oldest first, of all its writers; text that is no line is passed over. */
export function readUseRecord(path: string): RecordedLine[] {
  return recordFiles(path)
    .flatMap((file) => {
      try {
        return readPlainFile(file).split('\n');
      } catch {
        return [];
      }
    })
    .flatMap(parseLine);
}

function parseLine(text: string): RecordedLine[] {
  // A full disk may have left half a line before it.
  const start = text.lastIndexOf(LINE_START);
  if (start < 0) return [];
  try {
    const { writer: _writer, ...line } = JSON.parse(text.slice(start)) as RecordedLine & { writer?: string };
    return [line];
  } catch {
    return [];
  }
}

/** `x.uses` of an earlier version, and `x.2026-05.uses` for each month; oldest first. */
function recordFiles(path: string): string[] {
  const [directory, stem] = [dirname(path), basename(path, ENDING)];
  try {
    return readdirSync(directory)
      .filter((name) => name === `${stem}${ENDING}` || monthOf(name, stem) !== undefined)
      .sort((a, b) => (monthOf(a, stem) ?? '').localeCompare(monthOf(b, stem) ?? ''))
      .map((name) => join(directory, name));
  } catch {
    return []; // no directory, no record
  }
}

const ENDING = '.uses';

function monthPath(path: string, iso: string): string {
  return `${path.slice(0, -ENDING.length)}.${iso.slice(0, 'YYYY-MM'.length)}${ENDING}`;
}

/** The month in a file's name; undefined if that is no file of this record. */
function monthOf(name: string, stem: string): string | undefined {
  const rest = name.startsWith(`${stem}.`) ? name.slice(stem.length) : '';
  return /^\.(\d{4}-(?:0[1-9]|1[0-2]))\.uses$/.exec(rest)?.[1];
}

/** Removes the files in which every line is older; returns those that are left. */
function removeOld(path: string, before: number): string[] {
  const stem = basename(path, ENDING);
  return recordFiles(path).filter((file) => {
    const month = monthOf(basename(file), stem);
    if (!(lastTime(file, month) < before)) return true;
    rmSync(file, { force: true });
    return false;
  });
}

/** When the last line of a file was written, at the latest. */
function lastTime(file: string, month: string | undefined): number {
  if (month === undefined) return lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN;
  const [year = 0, number = 0] = month.split('-').map(Number);
  return Date.UTC(year, number); // months count from 0: the first moment of the next one
}

/** Whether an open file still has its name: a person may have moved or removed it. */
function isAt(path: string, descriptor: number): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.ino === fstatSync(descriptor).ino;
}

function sizeOf(path: string): number {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Where a line that was just appended begins: behind what other processes appended in the meantime. */
function find(descriptor: number, line: Buffer, from: number, to: number): number {
  const appended = Buffer.alloc(to - from);
  const size = readSync(descriptor, appended, 0, appended.length, from);
  const at = appended.subarray(0, size).indexOf(line);
  if (at < 0) throw new Error('it is not where it was written');
  return from + at;
}

function writeAt(descriptor: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length; ) {
    at += writeSync(descriptor, bytes, at, bytes.length - at, position + at);
  }
}

function unwritable(path: string, cause: unknown): BridgeError {
  return new BridgeError('RECORD_FULL', {
    what: 'the key was not used',
    why: `its use can't be recorded in ${path} (${(cause as Error).message})`,
    fix: 'Make room on that disk, or make the file writable.',
    cause,
  });
}
