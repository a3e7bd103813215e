import { BridgeError } from '@gpg-bridge/core/errors';

/** When a bridge ends by itself. */
export interface LifetimeOptions {
  /** ISO time; absent: it has none. */
  until?: string | undefined;
  /** Without a use of a key for so long it ends; absent: never for that. */
  idleSeconds?: number | undefined;
  /** From when a time without a use of a key counts, in milliseconds since the epoch; now, while one is in use. */
  lastUse(): number;
  /** It is over. */
  end(why: string): void;
  now?: () => number;
}

/** A timer does not run while a computer sleeps: the clock is looked at this often. */
const LOOK_MS = 30_000;

/** Ends a bridge at a time that was given, or when no key was used for a while. */
export class Lifetime {
  readonly #options: LifetimeOptions;
  readonly #now: () => number;
  #until: number | undefined;
  #idleSeconds: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LifetimeOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#idleSeconds = options.idleSeconds;
    this.renew(options.until);
  }

  /** Gives it another time to end at, as long as it has not ended. */
  renew(until: string | undefined): void {
    this.#until = until === undefined ? undefined : Date.parse(until);
    this.#look();
  }

  /** Gives it another time without a use of a key after which it ends. */
  endsWhenIdle(seconds: number | undefined): void {
    this.#idleSeconds = seconds;
    this.#look();
  }

  /** Ends it no more. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** When it ends as things stand; undefined if it does not. */
  get endsAt(): Date | undefined {
    const ends = [this.#until, this.#idleEnd()].filter((end) => end !== undefined);
    return ends.length === 0 ? undefined : new Date(Math.min(...ends));
  }

  /** Why no key may be used any more, in the moment before it ends. */
  get over(): BridgeError | undefined {
    if (this.#until === undefined || this.#now() < this.#until) return undefined;
    return new BridgeError('TIME_OVER', {
      what: 'the key was not used',
      why: 'the time that the bridge was given (--for) is over',
      fix: 'Bring it up again on the host.',
    });
  }

  #idleEnd(): number | undefined {
    if (this.#idleSeconds === undefined) return undefined;
    return this.#options.lastUse() + this.#idleSeconds * 1_000;
  }

  #look(): void {
    clearTimeout(this.#timer);
    const { endsAt } = this;
    if (!endsAt) return;
    const left = endsAt.getTime() - this.#now();
    if (left > 0) this.#timer = setTimeout(() => this.#look(), Math.min(left, LOOK_MS)).unref();
    else if (this.over) this.#options.end('the time that it was given (--for) is over');
    else this.#options.end('no key was used for the time given with --idle');
  }
}
