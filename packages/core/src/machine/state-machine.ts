import { EventEmitter } from 'node:events';
import { BridgeError } from '../errors.ts';

/** For every state, the events it takes and the state each leads to. A pair that is absent is impossible. */
export type TransitionTable<S extends string, E extends string> = {
  readonly [state in S]: { readonly [event in E]?: S };
};

/** Thrown for a pair that the table does not have; it names both. */
export class ImpossibleTransition extends BridgeError {
  constructor(
    readonly state: string,
    readonly event: string,
  ) {
    super('IMPOSSIBLE_TRANSITION', {
      what: `${event} in state ${state}`,
      why: 'the state table has no such pair',
      fix: 'This is a defect in GPG Bridge: please report it with the log.',
    });
  }
}

/**
 * A state machine whose table alone names the next state. `dispatch` moves first and then emits the
 * event by its own name, so that a handler may look at the new state and dispatch again.
 */
export class StateMachine<
  S extends string,
  E extends string,
  P extends Record<E, unknown> = Record<E, unknown>,
> extends EventEmitter {
  readonly #table: TransitionTable<S, E>;
  #state: S;
  #watcher: ((from: S, event: E, to: S, payload: unknown) => void) | undefined;

  constructor(table: TransitionTable<S, E>, initial: S) {
    super();
    this.#table = table;
    this.#state = initial;
  }

  get state(): S {
    return this.#state;
  }

  /** Whether the table has a row for this event in the present state. */
  accepts(event: E): boolean {
    return this.#table[this.#state][event] !== undefined;
  }

  /** Follows the table, then tells the event's handler; throws ImpossibleTransition for a pair without a row. */
  dispatch<K extends E>(event: K, payload: P[K]): void {
    const next = this.#table[this.#state][event];
    if (next === undefined) throw new ImpossibleTransition(this.#state, event);
    const former = this.#state;
    this.#state = next;
    this.#watcher?.(former, event, next, payload);
    this.emit(event, payload);
  }

  /** Has every transition told, before its handler is. */
  watch(watcher: (from: S, event: E, to: S, payload: unknown) => void): void {
    this.#watcher = watcher;
  }

  /** Registers the handler of an event, with the payload type that belongs to it. */
  handle<K extends E>(event: K, handler: (payload: P[K]) => void): this {
    return this.on(event, handler);
  }
}
