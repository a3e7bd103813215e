/** How a use of a private key ended, as far as the pace depends on it. */
export type PaceOutcome = 'ok' | 'cancelled' | 'other';

/** Uses of private keys that may be with the agent at once as long as all of them are answered quickly. */
const MAX_AT_ONCE = 8;
/** An answer that takes longer than this most likely waits for a person. */
const WAITING_AFTER_MS = 1_000;
/** Cancels in a row after which the next prompt waits, and how long: twice as long each time. */
const FREE_CANCELS = 2;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 5 * 60_000;

/**
 * Decides when a target's next use of a private key may go to the agent, where it may make a prompt appear. While
 * one of them waits for a person the others wait here, and a person who cancels is left alone for a while.
 */
export class PromptPace {
  readonly #now: () => number;
  readonly #maxAtOnce: number;
  /** When each use that is with the agent went there. */
  readonly #withAgent = new Set<{ since: number }>();
  readonly #waiting: (() => void)[] = [];
  #cancels = 0;
  #notBefore = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `maxAtOnce` is 1 where a person is asked about every use. */
  constructor({ now = Date.now, maxAtOnce = MAX_AT_ONCE }: { now?: () => number; maxAtOnce?: number } = {}) {
    this.#now = now;
    this.#maxAtOnce = maxAtOnce;
  }

  /** How many uses wait for their turn. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Begins a use, at once or when its turn comes; the result ends it. */
  enter(): Turn | Promise<Turn> {
    if (this.#waiting.length === 0 && this.#isFree()) return this.#begin();
    return new Promise((resolve) => {
      this.#waiting.push(() => resolve(this.#begin()));
      this.#setTimer();
    });
  }

  #begin(): Turn {
    const use = { since: this.#now() };
    this.#withAgent.add(use);
    let isOver = false;
    return {
      leave: (outcome) => {
        if (isOver) return;
        isOver = true;
        this.#withAgent.delete(use);
        this.#count(outcome);
        this.#next();
      },
    };
  }

  #count(outcome: PaceOutcome): void {
    if (outcome === 'ok') this.#cancels = 0;
    if (outcome !== 'cancelled') return;
    this.#cancels += 1;
    if (this.#cancels < FREE_CANCELS) return;
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** (this.#cancels - FREE_CANCELS), LONGEST_PAUSE_MS);
    this.#notBefore = this.#now() + pause;
  }

  #isFree(): boolean {
    const now = this.#now();
    if (now < this.#notBefore) return false;
    if (this.#withAgent.size === 0) return true;
    // After a cancel one at a time; else as many as are answered quickly.
    if (this.#cancels > 0 || this.#withAgent.size >= this.#maxAtOnce) return false;
    return [...this.#withAgent].every(({ since }) => now - since < WAITING_AFTER_MS);
  }

  #next(): void {
    while (this.#waiting.length > 0 && this.#isFree()) this.#waiting.shift()!();
    this.#setTimer();
  }

  /** A pause ends by itself; everything else with an answer. */
  #setTimer(): void {
    clearTimeout(this.#timer);
    const left = this.#notBefore - this.#now();
    if (this.#waiting.length === 0 || left <= 0) return;
    this.#timer = setTimeout(() => this.#next(), left).unref();
  }
}

/** A use of a private key that has begun. */
export interface Turn {
  leave(outcome: PaceOutcome): void;
}
