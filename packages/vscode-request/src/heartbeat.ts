import { setTimeout as delay } from 'node:timers/promises';

/** How the host is checked. */
export interface HeartbeatOptions {
  /** Resolves when the host answers. */
  ping(): Promise<unknown>;
  /** Time between two checks. */
  everyMs: number;
  /** How long the host may take to answer. */
  deadlineMs: number;
}

/** VS Code queues pings while the connection is down, and delivers all of them later, so their number is bounded. */
const MOST_UNANSWERED = 8;
/** A ping is overdue after this part of the time in which it has to be answered. */
const OVERDUE_PART = 1 / 5;

/** Tells whether the host's end of the carrier is alive. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #waiting = new Set<() => void>();
  #unanswered = 0;
  /** When the host began to owe an answer, on the clock that nobody sets. */
  #owingSince: number | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Whether a ping has been without an answer for longer than a working line takes. */
  get isOverdue(): boolean {
    if (this.#owingSince === undefined) return false;
    return performance.now() - this.#owingSince > this.#options.deadlineMs * OVERDUE_PART;
  }

  /** Whether the host answers within the deadline; the answer to an earlier ping counts, too. */
  isAlive(signal: AbortSignal): Promise<boolean> {
    return this.#answer(this.#options.deadlineMs, signal);
  }

  /** Returns when the host answers again, or `signal` ends the wait. */
  async untilAlive(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !(await this.#answer(this.#options.everyMs, signal))) {
      // A host without the extension refuses pings at once, so there is a pause between two.
      await rest(this.#options.everyMs, signal);
    }
  }

  /** Returns when the host has stopped answering, when `goOn` says no, or when `signal` ends the watch. */
  async untilDead(signal: AbortSignal, goOn: () => boolean): Promise<'dead' | 'ended'> {
    for (;;) {
      await rest(this.#options.everyMs, signal);
      if (signal.aborted || !goOn()) return 'ended';
      if (!(await this.isAlive(signal))) return signal.aborted ? 'ended' : 'dead';
    }
  }

  #answer(withinMs: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const answered = () => settle(true);
      const silent = () => settle(false);
      const timer = setTimeout(silent, withinMs);
      const settle = (alive: boolean) => {
        clearTimeout(timer);
        this.#waiting.delete(answered);
        signal.removeEventListener('abort', silent);
        resolve(alive);
      };
      this.#waiting.add(answered);
      signal.addEventListener('abort', silent);
      if (signal.aborted) silent();
      else this.#ping(silent);
    });
  }

  #ping(refused: () => void): void {
    if (this.#unanswered >= MOST_UNANSWERED) return;
    this.#unanswered++;
    this.#owingSince ??= performance.now();
    this.#options.ping().then(
      () => {
        this.#heard();
        for (const answered of [...this.#waiting]) answered();
      },
      () => {
        this.#heard();
        refused();
      },
    );
  }

  /** Something came back; what was sent since then is owed from now on. */
  #heard(): void {
    this.#unanswered--;
    this.#owingSince = this.#unanswered > 0 ? performance.now() : undefined;
  }
}

/** Waits; an abort ends the wait early and is no error. */
async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}
