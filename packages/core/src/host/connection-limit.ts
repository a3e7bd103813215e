/** Connections of one bridge to one host agent, those in the making included. */
const MAX_CONNECTIONS = 64;

const RESOLVED = Promise.resolve();

/**
 * Lets a bridge have so many connections to an agent at once; further clients wait their turn. A target can slow
 * itself down so, never the host's own use of its agents, whose backlog and descriptors are few.
 */
export class ConnectionLimit {
  readonly #max: number;
  readonly #waiting = new Set<() => void>();
  #open = 0;

  constructor(max = MAX_CONNECTIONS) {
    this.#max = max;
  }

  /**
   * Calls `begin` when there is room, with what to call when the connection is over. Deferred one microtask, so a client
   * whose end is in the same read opens no connection. Returns how to give up waiting, which does nothing once `begin`
   * was called.
   */
  enter(begin: (leave: () => void) => void): () => void {
    const start = () => {
      this.#open += 1;
      let left = false;
      begin(() => {
        if (left) return;
        left = true;
        this.#open -= 1;
        this.#next();
      });
    };
    this.#waiting.add(start);
    void RESOLVED.then(() => this.#next()); // which takes less than queueMicrotask
    return () => void this.#waiting.delete(start);
  }

  #next(): void {
    const [first] = this.#waiting;
    if (!first || this.#open >= this.#max) return;
    this.#waiting.delete(first);
    first();
  }
}
