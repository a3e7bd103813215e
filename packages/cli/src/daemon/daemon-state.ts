import type { DaemonStatus } from './control.ts';

/** What a daemon is in the middle of, and since when. */
export class DaemonState {
  readonly started = new Date();
  /** On a clock that nobody sets. */
  readonly #startedAt = performance.now();
  #name: DaemonStatus['state'] = 'starting';
  #since = performance.now();
  #readySince = 0;
  #brokenSince: number | undefined;
  #onReady: (() => void)[] = [];
  /** Why it does not work, or did not before it was told to end. */
  lastError: string | null = null;
  /** What the last check found. */
  problems: readonly string[] = [];
  /** The sockets that it found to be of no use, by their types. */
  broken: readonly string[] = [];
  /** Somebody told it to end. */
  wasStopped = false;
  /** Another bridge has taken its place. */
  isSucceeded = false;
  /** When it tries to attach again, while it waits for that. */
  nextAttempt: Date | undefined;

  /** What was entered last. */
  get name(): DaemonStatus['state'] {
    return this.#name;
  }

  /** When it attached last, in milliseconds since the epoch; 0 before. */
  get readySince(): number {
    return this.#readySince;
  }

  /** How long the daemon has run. */
  get uptimeSeconds(): number {
    return Math.floor((performance.now() - this.#startedAt) / 1000);
  }

  /** Goes on to another state. */
  enter(name: DaemonStatus['state']): void {
    if (name !== this.#name) this.#since = performance.now();
    this.#name = name;
  }

  /** Its bridge works. */
  enterReady(): void {
    this.enter('ready');
    this.#readySince = Date.now();
    // What was wrong before is over; the log still has it.
    this.lastError = null;
    this.problems = [];
    this.broken = [];
    this.nextAttempt = undefined;
  }

  /** Resolves when it is told next that its bridge works. */
  untilReady(): Promise<void> {
    return new Promise((resolve) => this.#onReady.push(resolve));
  }

  /** Lets those go on who wait for a bridge that works. */
  tellReady(): void {
    for (const tell of this.#onReady.splice(0)) tell();
  }

  /** The state as a person is shown it: a bridge that is ready and has problems is broken. */
  shown(problems: readonly string[]): Pick<DaemonStatus, 'state' | 'stateSeconds'> {
    const isBroken = this.#name === 'ready' && problems.length > 0;
    this.#brokenSince = isBroken ? (this.#brokenSince ?? performance.now()) : undefined;
    return {
      state: isBroken ? 'broken' : this.#name,
      stateSeconds: Math.floor((performance.now() - (this.#brokenSince ?? this.#since)) / 1000),
    };
  }
}
