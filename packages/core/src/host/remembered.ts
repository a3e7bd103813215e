/** The result of an asynchronous call, shared by all callers; after a failure the next caller tries again. */
export class Remembered<T> {
  #answer: Promise<T> | undefined;

  constructor(private readonly ask: () => Promise<T>) {}

  /** The result; callers that come while it is awaited get the same one. */
  get(): Promise<T> {
    if (this.#answer) return this.#answer;
    const answer = this.ask();
    this.#answer = answer;
    answer.catch(() => {
      if (this.#answer === answer) this.#answer = undefined;
    });
    return answer;
  }

  /** Makes the next caller try again. */
  forget(): void {
    this.#answer = undefined;
  }
}
