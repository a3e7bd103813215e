/** Work on one thing; it never rejects. */
export type Job = () => Promise<void>;

/** Does a bounded number of jobs at a time, and those for one thing one after the other. */
export class KeyedQueue {
  readonly #waiting = new Map<string, Job>();
  readonly #active = new Map<string, Promise<void>>();

  constructor(readonly limit: number) {}

  /** Adds a job, in place of one for the same thing that has not begun. */
  add(key: string, job: Job): void {
    this.#waiting.set(key, job);
    this.#start();
  }

  /** Forgets what has not begun, and resolves when the rest is done. */
  async close(): Promise<void> {
    this.#waiting.clear();
    await Promise.all(this.#active.values());
  }

  #start(): void {
    for (const [key, job] of this.#waiting) {
      if (this.#active.size >= this.limit) return;
      if (this.#active.has(key)) continue;
      this.#waiting.delete(key);
      const done = job().finally(() => {
        this.#active.delete(key);
        this.#start();
      });
      this.#active.set(key, done);
    }
  }
}
