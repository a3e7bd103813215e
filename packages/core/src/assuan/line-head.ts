import type { ByteReader } from '../bytes/chunk-list.ts';

/** The byte that ends a line. */
export const LF = 0x0a;
/** The byte that may stand before it. */
export const CR = 0x0d;
const TAB = 0x09;
const SPACE = 0x20;
const HASH = 0x23;
const UPPER_D = 0x44;
const LOWER_D = 0x64;

/** A word is remembered up to here; no word of the protocol is as long. */
const MAX_WORD_BYTES = 32;
/** An argument is remembered up to here: a keygrip has 40 digits behind `--another` and a blank, an error code ten. */
const MAX_ARGUMENT_BYTES = 64;

const WORD = 0;
const GAP = 1;
const ARGUMENT = 2;
const REST = 3;

/**
 * Reads one line at a time from chunks cut anywhere, and remembers only how it began: the first word,
 * the byte behind it, and (where asked for) the first bytes of the argument. Every byte is looked at
 * once: the beginning one by one, the rest by a search for LF.
 */
export class LineHead implements ByteReader {
  /** Bytes of the line so far, without its LF. */
  length = 0;
  /** Length of the first word; one more than MAX_WORD_BYTES when it was longer. */
  wordLength = 0;
  /** The byte that ended the first word: at most 0x20, or -1 when there was none yet. */
  delimiter = -1;

  #part = WORD;
  #complete = true;
  readonly #word = Buffer.alloc(MAX_WORD_BYTES);
  #argument: Buffer | undefined;
  #argumentLength = 0;
  readonly #wantsArgument: ((line: LineHead) => boolean) | undefined;

  /** `wantsArgument` is asked at the end of each first word whether its argument matters. */
  constructor(wantsArgument?: (line: LineHead) => boolean) {
    this.#wantsArgument = wantsArgument;
  }

  /** Reads on; the index behind the LF when the line is complete. The next call begins a new line. */
  read(chunk: Buffer, from: number): number {
    if (this.#complete) this.#begin();
    let at = from;
    if (this.#part === WORD) at = this.#readWord(chunk, at);
    if (this.#part === GAP || this.#part === ARGUMENT) at = this.#readArgument(chunk, at);
    // `at` is behind the LF when one of the readers above met it.
    const lf = this.#complete ? at - 1 : at < chunk.length ? chunk.indexOf(LF, at) : -1;
    if (lf < 0) {
      this.length += chunk.length - from;
      return -1;
    }
    this.length += lf - from;
    this.#complete = true;
    return lf + 1;
  }

  /** Forgets a line that is not complete. */
  reset(): void {
    this.#begin();
    this.#complete = true;
  }

  /** Whether it stands between two lines. */
  get isComplete(): boolean {
    return this.#complete;
  }

  /** The first word, cut at MAX_WORD_BYTES. */
  get word(): string {
    return this.#word.toString('latin1', 0, Math.min(this.wordLength, MAX_WORD_BYTES));
  }

  /** Whether the first word is this one, in this case. */
  wordIs(word: string): boolean {
    if (this.wordLength !== word.length) return false;
    for (let i = 0; i < word.length; i++) {
      if (this.#word[i] !== word.charCodeAt(i)) return false;
    }
    return true;
  }

  /** The beginning of the argument without leading white-space; empty unless it was asked for. */
  get argument(): string {
    return this.#argument === undefined ? '' : this.#argument.toString('latin1', 0, this.#argumentLength);
  }

  /** Nothing, or CR alone: gpg-agent gives such a line no answer. A line of white-space it does answer. */
  get isBlank(): boolean {
    return this.wordLength === 0 && (this.length === 0 || (this.length === 1 && this.delimiter === CR));
  }

  /** A `#` in the first column: never answered. */
  get isComment(): boolean {
    return this.wordLength > 0 && this.#word[0] === HASH;
  }

  /** Whether a space or a tab ended the first word. Behind any other byte gpg-agent sees no argument, or another word. */
  get hasBlank(): boolean {
    return this.delimiter === SPACE || this.delimiter === TAB;
  }

  /** `D` and a space, in either case as gpg-agent has it. A bare `D` is not data. */
  get isData(): boolean {
    return (
      this.wordLength === 1 &&
      this.delimiter === SPACE &&
      (this.#word[0] === UPPER_D || this.#word[0] === LOWER_D)
    );
  }

  #begin(): void {
    this.#complete = false;
    this.#part = WORD;
    this.length = 0;
    this.wordLength = 0;
    this.delimiter = -1;
    this.#argumentLength = 0;
  }

  #readWord(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (byte <= SPACE) {
        this.delimiter = byte;
        if (byte === LF) return this.#lineEnd(at);
        this.#part = this.#wantsArgument?.(this) ? GAP : REST;
        return at + 1;
      }
      if (this.wordLength === MAX_WORD_BYTES) {
        this.wordLength++;
        this.#part = REST;
        return at + 1;
      }
      this.#word[this.wordLength++] = byte;
    }
    return chunk.length;
  }

  #readArgument(chunk: Buffer, from: number): number {
    this.#argument ??= Buffer.alloc(MAX_ARGUMENT_BYTES);
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (byte === LF) return this.#lineEnd(at);
      if (this.#part === GAP && (byte === SPACE || byte === TAB)) continue;
      this.#part = ARGUMENT;
      this.#argument[this.#argumentLength++] = byte;
      if (this.#argumentLength === MAX_ARGUMENT_BYTES) {
        this.#part = REST;
        return at + 1;
      }
    }
    return chunk.length;
  }

  #lineEnd(lf: number): number {
    this.#complete = true;
    this.#part = REST;
    return lf + 1;
  }
}
