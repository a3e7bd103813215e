import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SessionWatcher } from '../bridge/journal.ts';

/** After fewer sessions than this there is too little to give back. */
const MANY_SESSIONS = 500;
/** Nobody is kept waiting by a collection when nobody has come for this long. */
const QUIET_MS = 3_000;

/**
 * Gives memory back after a burst of sessions. They leave nothing but garbage, which V8 is in no hurry to
 * collect once nothing more is asked for: its pages would stay until the next burst, maybe for ever.
 */
export class Tidying implements SessionWatcher {
  #sessions = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly collect: () => void = collectGarbage,
    private readonly quietMs = QUIET_MS,
  ) {}

  /** A session begins. */
  began(): void {
    this.#sessions += 1;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The last session has ended. */
  quiet(): void {
    if (this.#sessions < MANY_SESSIONS) return;
    this.#timer = setTimeout(() => {
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
