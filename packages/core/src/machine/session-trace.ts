import type { LogCallback } from '../log.ts';
import type { StateMachine } from './state-machine.ts';

/** Which way bytes went: towards the host's agent, or towards the client in the target. */
export type Direction = 'toHost' | 'toTarget';

/** A command that was answered. */
interface Answered {
  command: string;
  outcome: string;
  durationMs: number;
}

/**
 * Tells a session's life in a log that is kept to find faults with: by an id that both ends share; states, sizes, times
 * and command words, never what was sent.
 */
export class SessionTrace {
  readonly #log: LogCallback;
  readonly #startedAt = performance.now();
  readonly #bytes: Record<Direction, number> = { toHost: 0, toTarget: 0 };
  #name: string;

  /** `name` is what the session is called here until the id is known that the other end has for it, too. */
  constructor(name: string, opening: string, log: LogCallback) {
    this.#name = name;
    this.#log = log;
    this.#tell(opening, 'debug');
  }

  /** From now on it goes by the id that both ends share. */
  is(id: string): void {
    const name = `session ${id}`;
    if (name === this.#name) return;
    this.#tell(`is ${name}`, 'debug');
    this.#name = name;
  }

  /** Tells every transition of a session's state machine; two of its events bring bytes. */
  follow<S extends string, E extends string, P extends Record<E, unknown>>(
    machine: StateMachine<S, E, P>,
    bringing: Readonly<Partial<Record<E, Direction>>>,
  ): void {
    machine.watch((from, event, to, payload) => {
      const direction = bringing[event];
      const size = direction ? sizeOf(payload) : 0;
      if (direction) this.count(direction, size);
      const bytes = direction ? `, ${size} bytes` : '';
      this.#tell(`${from} -> ${to} by ${event}${bytes}, at ${this.#elapsed()} ms`, 'trace');
    });
  }

  /** Bytes went one way. */
  count(direction: Direction, bytes: number): void {
    this.#bytes[direction] += bytes;
  }

  /** It has got to another state. */
  reached(state: string): void {
    this.#tell(`${state} after ${this.#elapsed()} ms`, 'debug');
  }

  /** A command was answered. */
  answered({ command, outcome, durationMs }: Answered): void {
    this.#tell(`${command} ${outcome}, ${durationMs.toFixed(1)} ms`, 'trace');
  }

  /** It is over. */
  ended(): void {
    const { toHost, toTarget } = this.#bytes;
    this.#tell(`ended after ${this.#elapsed()} ms, ${toHost} bytes to the host, ${toTarget} back`, 'debug');
  }

  #tell(what: string, level: 'debug' | 'trace'): void {
    this.#log(`${this.#name}: ${what}`, level);
  }

  #elapsed(): string {
    return (performance.now() - this.#startedAt).toFixed(1);
  }
}

/** How many bytes an event brought: as a text with a character for each, as a block, or as a response. */
function sizeOf(payload: unknown): number {
  if (typeof payload === 'string') return payload.length;
  const { bytes, text } = (payload ?? {}) as { bytes?: Uint8Array; text?: string };
  return bytes?.length ?? text?.length ?? 0;
}
