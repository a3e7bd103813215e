/** How a use of a private key ended, as far as the pace depends on it; `left`: its client has, and the agent goes on. */
export type PaceOutcome = 'ok' | 'cancelled' | 'left' | 'other';

/** Uses of private keys that may be with the agent at once as long as all of them are answered quickly. */
const MAX_AT_ONCE = 8;
/** An answer that takes longer than this most likely waits for a person. */
const WAITING_AFTER_MS = 1_000;
/** Cancels in a row after which the next prompt waits, and how long: twice as long each time. */
const FREE_CANCELS = 2;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 5 * 60_000;
/** Cancels are forgotten when there was none for so long. */
const FORGOTTEN_AFTER_MS = 15 * 60_000;
/** Uses that clients have left and the agent goes on with, which may each have a prompt, before the next one waits. */
const MAX_LEFT = 2;

/**
 * Decides when a target's next use of a private key may go to the agent, where it may make a prompt appear. While
 * one of them waits for a person the others wait here, and a person who cancels is left alone for a while.
 */
export class PromptPace {
  readonly #now: () => number;
  #maxAtOnce: number;
  /** When each use that is with the agent went there. */
  readonly #withAgent = new Set<Use>();
  /** Those of clients that have left. */
  readonly #left = new Set<Use>();
  /** Begins each use that waits for its turn, in their order. */
  readonly #waiting = new Set<() => void>();
  #cancels = 0;
  #cancelledAt = 0;
  /** What was cancelled: a use of another key says nothing about the person's will. */
  #cancelled = new Set<string>();
  #notBefore = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `maxAtOnce` is 1 where a person is asked about every use. */
  constructor({ now = Date.now, maxAtOnce = MAX_AT_ONCE }: { now?: () => number; maxAtOnce?: number } = {}) {
    this.#now = now;
    this.#maxAtOnce = maxAtOnce;
  }

  /** How many uses wait for their turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** From now on a person is asked about every use. */
  oneAtATime(): void {
    this.#maxAtOnce = 1;
  }

  /** Whether every use that is with the agent waits for data of its client: then no other one has its turn before that. */
  get isHeldByClients(): boolean {
    return this.#withAgent.size > 0 && [...this.#withAgent].every(({ awaitsClient }) => awaitsClient);
  }

  /**
   * Begins a use, at once or when its turn comes; the result ends it. One that is given up before costs nothing any
   * more: a target could else fill the host's memory with uses that it left; the signal for that is only made for one
   * that waits. `name` tells uses of one key from others.
   */
  enter(name = '', signal?: () => AbortSignal): Turn | Promise<Turn> {
    if (this.#waiting.size === 0 && this.#isFree()) return this.#begin(name);
    const givenUp = signal?.();
    return new Promise((resolve) => {
      const begin = () => {
        givenUp?.removeEventListener('abort', forget);
        resolve(this.#begin(name));
      };
      const forget = () => {
        this.#waiting.delete(begin);
        resolve(NO_TURN);
      };
      this.#waiting.add(begin);
      givenUp?.addEventListener('abort', forget, { once: true });
      this.#setTimer();
    });
  }

  #begin(name: string): Turn {
    const use: Use = { name, since: this.#now(), awaitsClient: false };
    this.#withAgent.add(use);
    return {
      leave: (outcome) => {
        const wasWithAgent = this.#withAgent.delete(use);
        if (outcome === 'left' && wasWithAgent) this.#left.add(use);
        else if (!this.#left.delete(use) && !wasWithAgent) return;
        this.#count(outcome, name);
        this.#next();
      },
      awaitsClient: (isAwaited) => {
        use.awaitsClient = isAwaited;
        use.since = this.#now();
        this.#next();
      },
    };
  }

  #count(outcome: PaceOutcome, name: string): void {
    if (outcome === 'ok' && this.#cancelled.has(name)) this.#forgetCancels();
    if (outcome !== 'cancelled') return;
    const now = this.#now();
    if (now - this.#cancelledAt > FORGOTTEN_AFTER_MS) this.#forgetCancels();
    this.#cancelledAt = now;
    this.#cancelled.add(name);
    this.#cancels += 1;
    if (this.#cancels < FREE_CANCELS) return;
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** (this.#cancels - FREE_CANCELS), LONGEST_PAUSE_MS);
    this.#notBefore = now + pause;
  }

  #forgetCancels(): void {
    this.#cancels = 0;
    this.#cancelled = new Set();
  }

  #isFree(): boolean {
    const now = this.#now();
    if (now < this.#notBefore || this.#left.size >= MAX_LEFT) return false;
    if (this.#withAgent.size === 0) return true;
    // After a cancel one at a time; else as many as are answered quickly.
    if (now - this.#cancelledAt > FORGOTTEN_AFTER_MS) this.#forgetCancels();
    if (this.#cancels > 0 || this.#withAgent.size >= this.#maxAtOnce) return false;
    return [...this.#withAgent].every(
      ({ since, awaitsClient }) => awaitsClient || now - since < WAITING_AFTER_MS,
    );
  }

  #next(): void {
    for (const begin of this.#waiting) {
      if (!this.#isFree()) break;
      this.#waiting.delete(begin);
      begin();
    }
    this.#setTimer();
  }

  /** A pause ends by itself; everything else with an answer. */
  #setTimer(): void {
    clearTimeout(this.#timer);
    const left = this.#notBefore - this.#now();
    if (this.#waiting.size === 0 || left <= 0) return;
    this.#timer = setTimeout(() => this.#next(), left).unref();
  }
}

interface Use {
  name: string;
  /** When it went to the agent, or its client last owed data or gave it. */
  since: number;
  /** The agent asks nobody: it waits for data of the client. */
  awaitsClient: boolean;
}

/** A use of a private key that has begun; one that is `left` ends with a second `leave`. */
export interface Turn {
  leave(outcome: PaceOutcome): void;
  /** Whether it waits for data of its client. It still counts among those that are with the agent. */
  awaitsClient(isAwaited: boolean): void;
}

/** The turn of a use that was given up before. */
const NO_TURN: Turn = { leave() {}, awaitsClient() {} };
