import type { BridgeError } from '../errors.ts';

/** Payloads of the events by which every session ends, whichever its table. */
export interface EndPayloads {
  ERROR_OCCURRED: BridgeError;
  CLEANUP_REQUESTED: { hadError: boolean };
  CLEANUP_COMPLETE: undefined;
  CLEANUP_ERROR: unknown;
}

type EndEvent = keyof EndPayloads;

/** As much of a state machine as the ending needs. */
interface EndingMachine {
  accepts(event: EndEvent): boolean;
  dispatch<K extends EndEvent>(event: K, payload: EndPayloads[K]): void;
  handle<K extends EndEvent>(event: K, handler: (payload: EndPayloads[K]) => void): unknown;
}

/** What a session does when it ends. */
export interface EndActions {
  /** Each runs in its own guard; the first error is kept and makes the end FATAL. */
  steps: readonly (() => void)[];
  /** Called once, after the steps: `failure` is why the session ended, absent for a clean close. */
  ended(failure: BridgeError | undefined): void;
}

/**
 * How a session of either proxy ends: an error leads to cleanup, a closed socket to one or the other,
 * and cleanup runs once, which brings the machine to DISCONNECTED or FATAL.
 */
export class SessionEnd {
  readonly #machine: EndingMachine;
  #failure: BridgeError | undefined;

  constructor(machine: EndingMachine, actions: EndActions) {
    this.#machine = machine;
    machine.handle('ERROR_OCCURRED', (error) => {
      this.#failure = error;
      machine.dispatch('CLEANUP_REQUESTED', { hadError: true });
    });
    machine.handle('CLEANUP_REQUESTED', () => {
      const thrown = runCleanup([...actions.steps, () => actions.ended(this.#failure)]);
      if (thrown) machine.dispatch('CLEANUP_ERROR', thrown.error);
      else machine.dispatch('CLEANUP_COMPLETE', undefined);
    });
  }

  /** Whether the session still has a socket: the states that take ERROR_OCCURRED are just those. */
  get hasSocket(): boolean {
    return this.#machine.accepts('ERROR_OCCURRED');
  }

  /** Ends the session with an error; without effect once it is ending. */
  fail(error: BridgeError): void {
    if (this.hasSocket) this.#machine.dispatch('ERROR_OCCURRED', error);
  }

  /** Ends the session without one; without effect once it is ending. */
  finish(): void {
    if (this.hasSocket) this.#machine.dispatch('CLEANUP_REQUESTED', { hadError: false });
  }

  /** For a socket's `close`, which may come in any state. */
  socketClosed(hadError: boolean, error: () => BridgeError): void {
    if (hadError) this.fail(error());
    else this.finish();
  }
}

/** Runs every step whatever the others do, and returns the first thing thrown, if anything was. */
function runCleanup(steps: readonly (() => void)[]): { error: unknown } | undefined {
  let first: { error: unknown } | undefined;
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      first ??= { error };
    }
  }
  return first;
}
