/** When a line that says nothing counts as dead. */
export interface HeartbeatTimes {
  /** Between two looks at the line while anything is open or waits. */
  tickMs: number;
  /** PINGs, one a tick, that may stay without a sign of life; at the tick after them the line is given up. */
  maxUnanswered: number;
  /** Ticks between two PINGs while nothing is open. */
  idleTicks: number;
}

/** A session is answered within nine seconds; an idle bridge sends 18 bytes a minute. */
export const HEARTBEAT: HeartbeatTimes = { tickMs: 1_500, maxUnanswered: 5, idleTicks: 40 };

/** What a heartbeat asks its muxer, and tells it. */
export interface HeartbeatOwner {
  /** Whether somebody waits for the other end, or may do so. */
  readonly isWaiting: boolean;
  ping(): void;
  lost(): void;
}

/**
 * Notices that the other end does not answer any more. It counts its own looks, not time: a process that was
 * stopped, or a machine that slept, wakes up with one look missed, and asks again before it gives up.
 */
export class Heartbeat {
  #timer: NodeJS.Timeout | undefined;
  #isIdle = true;
  #heard = false;
  #unanswered = 0;

  constructor(
    private readonly times: HeartbeatTimes,
    private readonly owner: HeartbeatOwner,
  ) {}

  /** Whether an answer is late. */
  get isOverdue(): boolean {
    return this.#unanswered > 1;
  }

  /** How long the other end may say nothing while anything is open, at most. */
  get limitMs(): number {
    return (this.times.maxUnanswered + 1) * this.times.tickMs;
  }

  /** Begins. */
  start(): void {
    this.#wait(!this.owner.isWaiting);
  }

  /** Ends. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Something came, whatever it is. */
  heard(): void {
    this.#heard = true;
  }

  /** Something was opened: from now on an answer is waited for. */
  wake(): void {
    if (this.#isIdle && this.#timer) this.#wait(false);
  }

  #wait(isIdle: boolean): void {
    clearTimeout(this.#timer);
    this.#isIdle = isIdle;
    const { tickMs, idleTicks } = this.times;
    this.#timer = setTimeout(() => this.#look(), isIdle ? tickMs * idleTicks : tickMs).unref();
  }

  #look(): void {
    const { isWaiting } = this.owner;
    if (this.#heard) this.#unanswered = 0;
    if (this.#unanswered >= this.times.maxUnanswered) {
      this.owner.lost();
      return;
    }
    // While anything is open, also for the other end's sake: what it sends may keep a slow line busy for long.
    if (isWaiting || !this.#heard) {
      this.#unanswered++;
      this.owner.ping();
    }
    this.#heard = false;
    this.#wait(!isWaiting);
  }
}
