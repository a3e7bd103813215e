import { closeSync, fstatSync, ftruncateSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs';
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
  key?: string;
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
/** Older lines are removed when a bridge starts: by time alone, never to make room. */
const KEPT_MS = 180 * 24 * 60 * MINUTE_MS;
/** Room for the changing part of a line, so that it can be written over in place. */
const TAIL_BYTES = 64;

/**
 * The record of what one target used the host's private keys for. A line is written before the use begins, and
 * completed in place before its answer leaves; nothing that a target does removes one.
 */
export class UseRecordFile implements KeyUseRecord {
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Opened by the first use: a bridge over which nothing was used leaves no file. */
  #descriptor: number | undefined;
  #size = 0;
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
    const line = this.#append(use, 'begun', 0);
    return { finish: (outcome, durationMs) => this.#complete(line, outcome, durationMs) };
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #open(): number {
    if (this.#descriptor !== undefined) return this.#descriptor;
    try {
      removeOld(this.path, this.#now() - KEPT_MS);
      // Not in append mode, which would write everything at the end.
      this.#descriptor = openPlainFile(this.path, 'update');
      return this.#descriptor;
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  /** Counts a use in the minute's one line for all that are too many. */
  #fold(use: KeyUse, minute: Minute): RecordedUse {
    minute.folded ??= { line: this.#append(use, 'folded', 0), count: 0 };
    const { folded } = minute;
    folded.count += 1;
    this.#complete(folded.line, 'folded', 0, folded.count);
    return { finish: () => {} };
  }

  #minute({ time, command, key }: KeyUse): Minute {
    const name = `${command} ${key ?? ''}`;
    const start = Math.floor(time / MINUTE_MS);
    const known = this.#minutes.get(name);
    if (known?.start === start) return known;
    const minute: Minute = { start, uses: 0 };
    // A target can name any number of keys.
    if (this.#minutes.size > 1_000) this.#minutes.clear();
    this.#minutes.set(name, minute);
    return minute;
  }

  #append({ time, session, command, key }: KeyUse, outcome: string, durationMs: number): Line {
    const head = jsonLine({
      time: new Date(time).toISOString(),
      target: this.target,
      session,
      command,
      ...(key === undefined ? {} : { key }),
    }).slice(0, -1);
    const bytes = Buffer.from(`${head}${tail(outcome, durationMs)}\n`);
    // While a bridge is replaced by one with other options both daemons write for a moment.
    this.#size = fstatSync(this.#open()).size;
    if (this.#size + bytes.length > this.#maxBytes) throw full(this.path);
    const line = { tailAt: this.#size + Buffer.byteLength(head) };
    this.#write(bytes, this.#size);
    this.#size += bytes.length;
    return line;
  }

  #complete({ tailAt }: Line, outcome: string, durationMs: number, count?: number): void {
    this.#write(Buffer.from(tail(outcome, durationMs, count)), tailAt);
  }

  #write(bytes: Buffer, position: number): void {
    const descriptor = this.#open();
    try {
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(descriptor, bytes, at, bytes.length - at, position + at);
      }
    } catch (error) {
      try {
        ftruncateSync(descriptor, this.#size); // no half line stays
      } catch {
        // The disk that can't be written to can't be tidied either; a half line is passed over by readers.
      }
      throw unwritable(this.path, error);
    }
  }
}

interface Minute {
  start: number;
  uses: number;
  folded?: { line: Line; count: number };
}

interface Line {
  /** Where the part begins that is written over. */
  tailAt: number;
}

/** The part of a line that changes, always of the same length: spaces before the closing brace are JSON too. */
function tail(outcome: string, durationMs: number, count?: number): string {
  const facts = `,"outcome":"${outcome}","durationMs":${Math.round(durationMs)}${count ? `,"count":${count}` : ''}`;
  return `${facts.padEnd(TAIL_BYTES - 1)}}`;
}

/** The lines of a record, oldest first; what is no line is passed over. */
export function readUseRecord(path: string): RecordedLine[] {
  let text: string;
  try {
    text = readPlainFile(path);
  } catch {
    return [];
  }
  return text.split('\n').flatMap((line) => {
    try {
      return line ? [JSON.parse(line) as RecordedLine] : [];
    } catch {
      return [];
    }
  });
}

function removeOld(path: string, before: number): void {
  const lines = readUseRecord(path);
  const kept = lines.filter(({ time }) => !(Date.parse(time) < before));
  if (kept.length === lines.length) return;
  rmSync(`${path}.new`, { force: true });
  const file = openPlainFile(`${path}.new`, 'create');
  try {
    writeFileSync(file, kept.map((line) => `${jsonLine(line)}\n`).join(''));
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
}

function full(path: string): BridgeError {
  return new BridgeError('RECORD_FULL', {
    what: 'the key was not used',
    why: `the record of what this target used your keys for is full (${path})`,
    fix: 'Look at it on the host, and move it away if that is all right.',
  });
}

function unwritable(path: string, cause: unknown): BridgeError {
  return new BridgeError('RECORD_FULL', {
    what: 'the key was not used',
    why: `its use can't be recorded in ${path} (${(cause as Error).message})`,
    fix: 'Make room on that disk, or make the file writable.',
    cause,
  });
}
