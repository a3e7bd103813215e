/** Tells whoever listens, once, that something is given up. Every AbortSignal does. */
export interface GivingUp {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** An AbortController and its signal in one, for what every client needs one of: Node's own are slow to make. */
export class Attempt implements GivingUp {
  #aborted = false;
  readonly #listeners: (() => void)[] = [];

  get aborted(): boolean {
    return this.#aborted;
  }

  /** Gives up; those who listen are told in the order in which they came. */
  abort(): void {
    if (this.#aborted) return;
    this.#aborted = true;
    for (let next: (() => void) | undefined; (next = this.#listeners.shift()); ) next();
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (!this.#aborted && !this.#listeners.includes(listener)) this.#listeners.push(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener);
    if (at >= 0) this.#listeners.splice(at, 1);
  }
}
