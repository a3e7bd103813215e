/**
 * What a target's end may answer before the host's agent has: the host sends it, the target's end looks lines up
 * in it. Lines and answers are strings of one character a byte.
 */
export interface AnswerTable {
  /** What a client is greeted with, with its LF; without one nothing is answered ahead. */
  readonly greeting: string;
  readonly entries: readonly TableEntry[];
}

/** One line, or a shape of lines, and the answer to it. */
export interface TableEntry {
  /** Never used for another entry by the same host. */
  readonly id: number;
  /**
   * A POSIX extended regular expression for the line without its LF, from `^` to `$`, with nothing in it that Perl
   * or JavaScript understands in another way: no `.`, no classes by name, no groups.
   */
  readonly pattern: string;
  /** The whole response, with its LF. */
  readonly answer: string;
  /** Whether it has to wait as the first command of a session. */
  readonly notFirst?: boolean;
}

/** An answer that was sent along, and serves once: to exactly this line. */
export interface OnceEntry {
  readonly id: number;
  readonly line: string;
  readonly answer: string;
}

/** What a target that answers ahead says with a command, where the carrier is calls. */
export interface ToldBlock {
  /** The version of its table; 0 if it has none yet. */
  readonly table: number;
  /** The entries by which it has answered the lines ahead of the command. */
  readonly told: readonly number[];
  /** Those lines. */
  readonly lines: string;
}

/** What the host has for such a target beside a response. */
export interface AheadReply {
  /** Another table than the target's. */
  readonly table?: AnswerTable & { readonly version: number };
  /** Answers that are sent along. */
  readonly along?: readonly OnceEntry[];
}

/** A table in which nothing is answered ahead. */
export const NO_TABLE: AnswerTable = { greeting: '', entries: [] };

/** A line that is answered ahead has at most so many bytes: what Assuan allows. */
export const MAX_AHEAD_LINE = 1_000;

const LATER = 'later';

/** The fields of a TABLE frame; none for a table in which nothing is answered. */
export function tableFields({ greeting, entries }: AnswerTable): Buffer[] {
  if (greeting === '') return [];
  return bytesOf([
    greeting,
    ...entries.flatMap(({ id, pattern, answer, notFirst }) => [
      String(id),
      notFirst ? LATER : '',
      pattern,
      answer,
    ]),
  ]);
}

/** The table that these fields hold. */
export function tableOf(fields: readonly Buffer[]): AnswerTable {
  const [greeting = '', ...rest] = textsOf(fields);
  const entries: TableEntry[] = [];
  for (let at = 0; at + 3 < rest.length; at += 4) {
    const [id = '', later = '', pattern = '', answer = ''] = rest.slice(at, at + 4);
    entries.push({ id: Number(id), pattern, answer, notFirst: later === LATER });
  }
  return { greeting, entries };
}

/** The fields that follow the count in a TURN frame. */
export function onceFields(entries: readonly OnceEntry[]): Buffer[] {
  return bytesOf(entries.flatMap(({ id, line, answer }) => [String(id), line, answer]));
}

/** The answers that were sent along. */
export function onceOf(fields: readonly Buffer[]): OnceEntry[] {
  const texts = textsOf(fields);
  const entries: OnceEntry[] = [];
  for (let at = 0; at + 2 < texts.length; at += 3) {
    const [id = '', line = '', answer = ''] = texts.slice(at, at + 3);
    entries.push({ id: Number(id), line, answer });
  }
  return entries;
}

/** The pattern that fits this line alone. */
export function exactly(line: string): string {
  return `^${line.replace(/[\\.[{}()*+?^$|]/g, '\\$&')}$`;
}

function bytesOf(texts: readonly string[]): Buffer[] {
  return texts.map((text) => Buffer.from(text, 'latin1'));
}

function textsOf(fields: readonly Buffer[]): string[] {
  return fields.map((field) => field.toString('latin1'));
}
