/** What went wrong is tried again after this time, and after twice as long each time up to the longest. */
const RETRY_MS = 3_000;
const LONGEST_RETRY_MS = 15_000;

/** Tries something again that failed, with growing pauses. */
export class Retry {
  readonly #firstMs: number;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(firstMs = RETRY_MS) {
    this.#firstMs = firstMs;
  }

  /** It failed: tries it later, unless that is cancelled. */
  later(attempt: () => void): void {
    const pause = Math.min(this.#firstMs * 2 ** this.#failures++, LONGEST_RETRY_MS);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(attempt, pause).unref();
  }

  /** Something else is done about it. */
  cancel(): void {
    clearTimeout(this.#timer);
  }

  /** Nothing is wrong: the next pause is the shortest again. */
  reset(): void {
    this.#failures = 0;
  }
}
