import { UNKNOWN_COMMAND } from './operation.ts';

/** What is known of one line of a client. */
export interface ObservedLine {
  command: string;
  /** Whether it is a `D` line: part of an inquiry's answer, if one is asked for. */
  data: boolean;
  key: string | undefined;
}

/** Runs of equal lines that are remembered; what a client sends early beyond that is only counted. */
const MAX_RUNS = 4096;

interface Run {
  line: ObservedLine;
  count: number;
}

/**
 * The lines a client sent before their turn, in order. Equal lines in a row are one entry, so that early
 * data of any size takes one; the number of entries is bounded, whatever a client sends.
 */
export class LineQueue {
  readonly #runs: Run[] = [];
  #length = 0;

  /** Lines waiting. */
  get length(): number {
    return this.#length;
  }

  /** Entries they take. */
  get runs(): number {
    return this.#runs.length;
  }

  /** Whether the first line is data. */
  get dataIsNext(): boolean {
    return this.#runs[0]?.line.data ?? false;
  }

  /** Adds a line. Beyond the limit a command is counted as unknown, and data is passed over. */
  push(line: ObservedLine): void {
    const last = this.#runs.at(-1);
    if (last && isSame(last.line, line)) last.count++;
    else if (this.#runs.length < MAX_RUNS) this.#runs.push({ line, count: 1 });
    else if (line.data) return;
    else if (this.#runs.length === MAX_RUNS) this.#runs.push({ line: UNREMEMBERED, count: 1 });
    else last!.count++;
    this.#length++;
  }

  /** Removes and returns the first line. */
  shift(): ObservedLine | undefined {
    const first = this.#runs[0];
    if (!first) return undefined;
    this.#length--;
    if (--first.count === 0) this.#runs.shift();
    return first.line;
  }

  /** Removes the first line and all that equal it directly behind, and returns one of them. */
  shiftRun(): ObservedLine | undefined {
    const run = this.#runs.shift();
    this.#length -= run?.count ?? 0;
    return run?.line;
  }
}

const UNREMEMBERED: ObservedLine = { command: UNKNOWN_COMMAND, data: false, key: undefined };

function isSame(a: ObservedLine, b: ObservedLine): boolean {
  return a.command === b.command && a.data === b.data && a.key === b.key;
}
