/** What an asynchronous question was answered with, for all who ask; a failure is not kept. */
export class Remembered<T> {
  #answer: Promise<T> | undefined;

  constructor(private readonly ask: () => Promise<T>) {}

  /** The answer; those who come while it is being asked for wait for the same one. */
  get(): Promise<T> {
    if (this.#answer) return this.#answer;
    const answer = this.ask();
    this.#answer = answer;
    answer.catch(() => {
      if (this.#answer === answer) this.#answer = undefined;
    });
    return answer;
  }

  /** Has the next one ask again. */
  forget(): void {
    this.#answer = undefined;
  }
}
