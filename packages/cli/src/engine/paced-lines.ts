/** Lines that are told at once, and how many more each second; a long one counts for several. */
const LINES_AT_ONCE = 2_000;
const LINES_PER_SECOND = 200;
const CHARACTERS_PER_LINE = 200;
/** After a flood lines are told again when there is room for so many: a note of what was left out comes with each gap. */
const LINES_AFTER_FLOOD = 100;
/**
 * Bytes that are read at once, and how many more each second, told or not. Frames may have to wait behind them, so it is
 * far more than is told; to read as fast as a target can write would take a processor.
 */
const BYTES_AT_ONCE = 1024 * 1024;
const BYTES_PER_SECOND = 4 * 1024 * 1024;
/** Of what is left out the end is kept: the last lines of a command say why it ended. */
const TAIL_BYTES = 2_048;
const LF = 0x0a;

/** Something of which there is a little at once, and more with time. */
class Allowance {
  #left: number;
  #at: number;

  constructor(
    private readonly atOnce: number,
    private readonly perSecond: number,
    private readonly now: () => number,
  ) {
    this.#left = atOnce;
    this.#at = now();
  }

  /** How much there is; below zero: how much was taken too much. */
  get left(): number {
    const now = this.now();
    this.#left = Math.min(this.atOnce, this.#left + ((now - this.#at) / 1_000) * this.perSecond);
    this.#at = now;
    return this.#left;
  }

  take(amount: number): void {
    this.#left -= amount;
  }

  /** After how many milliseconds there is some again. */
  get waitMs(): number {
    const { left } = this;
    return left < 0 ? Math.ceil((-left / this.perSecond) * 1_000) : 0;
  }
}

/**
 * Takes text apart into lines (latin1, without their ends) at a pace that costs little, whoever writes it: what is more
 * is left out, and a line says how much that was. Of a line that is longer than `maxLine` the rest is left out, too.
 */
export class PacedLines {
  readonly #lines: Allowance;
  readonly #bytes: Allowance;
  #partial = '';
  #leftOut = 0;
  #tail: Buffer | undefined;

  constructor(
    private readonly maxLine: number,
    private readonly onLine: (line: string, end: '\n' | '') => void,
    now: () => number = () => performance.now(),
  ) {
    this.#lines = new Allowance(LINES_AT_ONCE, LINES_PER_SECOND, now);
    this.#bytes = new Allowance(BYTES_AT_ONCE, BYTES_PER_SECOND, now);
  }

  /** Takes the next bytes; returns for how many milliseconds no more are to be read. */
  push(chunk: Buffer): number {
    let at = this.#isFlooded ? this.#afterFlood(chunk) : 0;
    while (at < chunk.length) {
      if (this.#lines.left < 1) {
        this.#leaveOut(chunk, at);
        break;
      }
      at = this.#takeLine(chunk, at);
    }
    this.#bytes.take(chunk.length);
    return this.#bytes.waitMs;
  }

  /** There are no more bytes. */
  end(): void {
    if (this.#tail) {
      const tail = this.#tail;
      this.#sayLeftOut(tail.length);
      const lines = tail.toString('latin1').split('\n');
      if (lines.at(-1) === '') lines.pop();
      for (const line of lines) this.onLine(line.slice(0, this.maxLine), '\n');
    } else if (this.#partial) this.onLine(this.#partial, '');
  }

  get #isFlooded(): boolean {
    return this.#tail !== undefined;
  }

  /** The line that begins here, or its part that is there; returns where the next one begins. */
  #takeLine(chunk: Buffer, from: number): number {
    const end = chunk.indexOf(LF, from);
    const to = end < 0 ? chunk.length : end;
    const piece = chunk.toString('latin1', from, Math.min(to, from + this.maxLine - this.#partial.length));
    this.#lines.take((end < 0 ? 0 : 1) + piece.length / CHARACTERS_PER_LINE);
    this.#partial += piece;
    if (end < 0) return chunk.length;
    const line = this.#partial;
    this.#partial = '';
    this.onLine(line, '\n');
    return end + 1;
  }

  /** Where it goes on after a flood: with the first whole line, once there is room for some. */
  #afterFlood(chunk: Buffer): number {
    const end = this.#lines.left < LINES_AFTER_FLOOD ? -1 : chunk.indexOf(LF);
    if (end < 0) {
      this.#leaveOut(chunk, 0);
      return chunk.length;
    }
    this.#leftOut += end + 1;
    this.#sayLeftOut(0);
    return end + 1;
  }

  #leaveOut(chunk: Buffer, from: number): void {
    this.#leftOut += chunk.length - from + this.#partial.length;
    this.#partial = '';
    const part = chunk.subarray(Math.max(from, chunk.length - TAIL_BYTES));
    this.#tail = Buffer.concat([this.#tail ?? Buffer.alloc(0), part]).subarray(-TAIL_BYTES);
  }

  #sayLeftOut(butFor: number): void {
    this.#tail = undefined;
    const bytes = this.#leftOut - butFor;
    this.#leftOut = 0;
    if (bytes > 0) this.onLine(`${bytes} bytes were left out: too many came`, '\n');
  }
}
