import { randomBytes } from 'node:crypto';

/** Queries that every terminal answers without showing anything, and the end of their answers. */
const QUERIES = [
  ['\x1b[5n', 'n'],
  ['\x1b[6n', 'R'],
] as const;
const QUESTIONS = 32;
/** Cancels a sequence that the target has begun and not ended. */
const CANCEL = '\x18';
/** With a control character of one byte or of two: the target may have chosen. */
const ANSWER = /(?:\x1b\[|\x9b)[\d;]*([nR])/g;
/** Longer than any answer; the rest of what was read is of no use. */
const LONGEST_ANSWER = 32;

/**
 * Finds out when a terminal has processed everything that was written to it. It answers queries in order, so what
 * the target asked it is answered before what is asked last. That is a random series of two queries, which the target
 * can't have asked before.
 */
export class TerminalAnswers {
  /** What to write. */
  readonly queries: string;
  readonly #expected: string;
  #answers = '';
  #rest = '';

  constructor(random: Buffer = randomBytes(QUESTIONS)) {
    const asked = [...random].map((byte) => QUERIES[(byte & 1) as 0 | 1]);
    this.queries = CANCEL + asked.map(([query]) => query).join('');
    this.#expected = asked.map(([, end]) => end).join('');
  }

  /** Takes what was read; returns whether the last answer has come. Keys that a person types are passed over. */
  take(text: string): boolean {
    const read = this.#rest + text;
    let end = 0;
    for (const found of read.matchAll(ANSWER)) {
      this.#answers = (this.#answers + found[1]).slice(-this.#expected.length);
      end = found.index + found[0].length;
      if (this.#answers === this.#expected) return true;
    }
    this.#rest = read.slice(end).slice(-LONGEST_ANSWER);
    return false;
  }
}
