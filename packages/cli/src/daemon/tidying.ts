import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SessionWatcher } from '../bridge/journal.ts';

/** After fewer sessions than this there is too little to give back. */
const MANY_SESSIONS = 500;
/** Nobody is kept waiting by a collection when nobody has come for this long. */
const QUIET_MS = 2_000;

/**
 * Gives memory back after a burst of sessions. They leave nothing but garbage, which V8 is in no hurry to
 * collect once nothing more is asked for: its pages would stay until the next burst, maybe for ever.
 */
export class Tidying implements SessionWatcher {
  /** Since memory was given back last. */
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

  /** One timer for a whole burst: a session costs no more than being counted. */
  #lookLater(): void {
    this.#sessionsAtLastLook = this.#sessions;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#busy) return; // the end of the last session begins anew
      if (this.#sessions > this.#sessionsAtLastLook) {
        this.#lookLater();
        return;
      }
      this.#sessions = 0;
      this.collect();
    }, this.quietMs).unref();
  }
}

/** The collector is shown to contexts made after the flag is set: a flag on the command line would slow the start. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
