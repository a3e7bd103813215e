import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SessionWatcher } from '../bridge/journal.ts';

/** Fewer sessions than this leave too little garbage to be worth a collection. */
const MANY_SESSIONS = 500;
/** No session for this long: a collection, which stops the process for a moment, delays nobody. */
const QUIET_MS = 2_000;

/**
 * Collects garbage after a burst of sessions. V8 collects when memory is asked for, and an idle daemon asks
 * for none: without this the pages of a burst stay resident until the next one.
 */
export class IdleGarbageCollection implements SessionWatcher {
  /** Sessions since the last collection. */
  #sessions = 0;
  #sessionsAtLastLook = 0;
  #busy = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly collect: () => void = collectGarbage,
    private readonly quietMs = QUIET_MS,
  ) {}

  /** A session begins. */
  began(): void {
    this.#sessions += 1;
    this.#busy = true;
  }

  /** The last session has ended. */
  quiet(): void {
    this.#busy = false;
    if (this.#sessions < MANY_SESSIONS || this.#timer) return;
    this.#lookLater();
  }

  /** One timer for a whole burst, so that a session costs no more than being counted. */
  #lookLater(): void {
    this.#sessionsAtLastLook = this.#sessions;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#busy) return; // `quiet` starts the timer again
      if (this.#sessions > this.#sessionsAtLastLook) {
        this.#lookLater();
        return;
      }
      this.#sessions = 0;
      this.collect();
    }, this.quietMs).unref();
  }
}

/** Contexts made after the flag is set have `gc`. As an option of Node it would make Node start slower. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
