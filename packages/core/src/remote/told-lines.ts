import { type AnswerTable, MAX_AHEAD_LINE, NO_TABLE, type OnceEntry } from '../assuan/answer-table.ts';

/** Lines that were answered and have not gone to the host, in bytes; beyond it the next one waits. */
const MAX_TOLD_BYTES = 8_192;

/** An entry of a table, ready to be compared with lines. */
interface ReadyEntry {
  id: number;
  fits: RegExp;
  answer: string;
  notFirst: boolean;
}

/** The table that a target's end has at the moment, for all its clients. */
export class AheadTable {
  greeting = '';
  /** The host's number for it; 0 before there is one. */
  version = 0;
  readonly #isOverdue: () => boolean;
  /** By the first word of the lines that they fit. */
  #entries = new Map<string, ReadyEntry[]>();

  /** `isOverdue` says that the host has not answered for a while: then nothing is answered in its place. */
  constructor(isOverdue: () => boolean = () => false) {
    this.#isOverdue = isOverdue;
  }

  /** Takes another table in place of the one before. */
  set({ greeting, entries }: AnswerTable = NO_TABLE, version = 0): void {
    this.greeting = greeting;
    this.version = version;
    this.#entries = new Map();
    for (const { id, pattern, answer, notFirst = false } of entries) {
      const word = /^\^([A-Za-z_]+)/.exec(pattern)?.[1] ?? '';
      const entry = { id, fits: new RegExp(pattern), answer, notFirst };
      const others = this.#entries.get(word);
      if (others) others.push(entry);
      else this.#entries.set(word, [entry]);
    }
  }

  /** Whether clients are greeted and answered here. */
  get isOn(): boolean {
    return this.greeting !== '' && !this.#isOverdue();
  }

  /** The entry for a line. */
  find(line: string, isFirst: boolean): ReadyEntry | undefined {
    const space = line.indexOf(' ');
    const entries = this.#entries.get(space < 0 ? line : line.slice(0, space));
    return entries?.find(({ fits, notFirst }) => !(notFirst && isFirst) && fits.test(line));
  }
}

/** What goes to the host once a line waits for it. */
export interface Waiting {
  /** The entries by which the first lines were answered. */
  told: number[];
  /** Those lines, and what waits. */
  bytes: Buffer;
  /** How many of the bytes are those lines'. */
  kept: number;
}

/**
 * One client's lines as long as it is its turn and nothing is owed to it: those in the table are answered at once and
 * kept, and go to the host with the first line that is not.
 */
export class ToldLines {
  readonly #table: AheadTable;
  #once: Map<string, OnceEntry> | undefined;
  #isFirst = true;
  #told: number[] = [];
  /** The lines that were answered. */
  #lines = '';
  /** The beginning of a line. */
  #partial = '';

  constructor(table: AheadTable) {
    this.#table = table;
  }

  /** Whether nothing is kept here. */
  get isEmpty(): boolean {
    return this.#lines === '' && this.#partial === '';
  }

  /** Takes answers that the host has sent along for this client. */
  sentAlong(entries: readonly OnceEntry[]): void {
    if (entries.length === 0) return;
    this.#once ??= new Map();
    for (const entry of entries) this.#once.set(entry.line, entry);
  }

  /**
   * Reads what the client sent, and returns the answers. `waiting` is what has to go to the host now; without it the
   * client's turn goes on. With `mayAnswer` false every line waits.
   */
  read(bytes: Buffer, mayAnswer: boolean): { answers: string; waiting: Waiting | undefined } {
    const text = this.#partial + bytes.toString('latin1');
    this.#partial = '';
    let answers = '';
    let from = 0;
    for (let lf: number; (lf = text.indexOf('\n', from)) >= 0; from = lf + 1) {
      const entry =
        mayAnswer && this.#lines.length < MAX_TOLD_BYTES ? this.#find(text.slice(from, lf)) : undefined;
      this.#isFirst = false;
      if (!entry) return { answers, waiting: this.#release(text.slice(from)) };
      answers += entry.answer;
      this.#told.push(entry.id);
      this.#lines += text.slice(from, lf + 1);
    }
    this.#partial = text.slice(from);
    const waiting = this.#partial.length > MAX_AHEAD_LINE ? this.release() : undefined;
    return { answers, waiting };
  }

  /** Everything that was kept, for the host; undefined if there is nothing. */
  release(): Waiting | undefined {
    if (this.isEmpty) return undefined;
    const partial = this.#partial;
    this.#partial = '';
    return this.#release(partial);
  }

  #release(rest: string): Waiting {
    const { length: kept } = this.#lines;
    const waiting = { told: this.#told, bytes: Buffer.from(this.#lines + rest, 'latin1'), kept };
    this.#told = [];
    this.#lines = '';
    return waiting;
  }

  #find(line: string): { id: number; answer: string } | undefined {
    if (line.length > MAX_AHEAD_LINE) return undefined;
    const once = this.#once?.get(line);
    if (once) this.#once?.delete(line);
    return once ?? this.#table.find(line, this.#isFirst);
  }
}

/** The payload of a TOLD frame. */
export function toldPayload(told: readonly number[]): Buffer {
  const payload = Buffer.allocUnsafe(4 * told.length);
  for (const [index, id] of told.entries()) payload.writeUInt32BE(id, 4 * index);
  return payload;
}
