/** Streams that may be abandoned at once, and so many more each second. */
const AT_ONCE = 2_000;
const PER_SECOND = 1_000;
/** Nothing is left unread for longer, since what else comes has to wait, too. */
const LONGEST_REST_MS = 2_000;

/**
 * How fast streams may be opened and closed again before anything came of them. Each costs the host a little, and a
 * target can send ten thousands of them in a second; clients that come to something are not counted.
 */
export class AbandonedPace {
  readonly #now: () => number;
  #left = AT_ONCE;
  #at: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#at = now();
  }

  /** A stream was abandoned. */
  count(): void {
    this.#left -= 1;
  }

  /** For how long nothing should be read now, in ms; 0 if there were not too many. */
  rest(): number {
    if (this.#left === AT_ONCE) return 0;
    const now = this.#now();
    this.#left = Math.min(AT_ONCE, this.#left + (Math.max(0, now - this.#at) * PER_SECOND) / 1_000);
    this.#at = now;
    if (this.#left >= 0) return 0;
    const rest = Math.min(LONGEST_REST_MS, (-this.#left * 1_000) / PER_SECOND);
    // The rest pays for them: it gives nothing for those that follow.
    this.#left = 0;
    this.#at = now + rest;
    return rest;
  }
}
