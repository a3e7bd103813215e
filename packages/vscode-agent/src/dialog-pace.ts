/** Dialogs in a row that may be closed without a yes before the next one waits, and for how long then. */
const FREE = 10;
const QUIET_MS = [60_000, 10 * 60_000] as const;
/** So many later it waits the longer of the two. */
const AGAIN = 3;
/** After so long without any a person has forgotten them, too. */
const FORGOTTEN_AFTER_MS = 60 * 60_000;

/**
 * Keeps modal dialogs from coming again and again. VS Code does not tell who calls a command, so an extension can say
 * that the person asks, and a dialog that is back as soon as it is closed leaves nothing but to agree.
 */
export class DialogPace {
  readonly #now: () => number;
  #closed = 0;
  #closedAt = 0;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Whether one may open now. */
  get mayOpen(): boolean {
    const since = this.#now() - this.#closedAt;
    if (since > FORGOTTEN_AFTER_MS) this.#closed = 0;
    if (this.#closed < FREE) return true;
    return since >= QUIET_MS[this.#closed < FREE + AGAIN ? 0 : 1];
  }

  /** One was answered: with yes, or else. */
  answered(isYes: boolean): void {
    this.#closed = isYes ? 0 : this.#closed + 1;
    this.#closedAt = this.#now();
  }
}
