/**
 * What a target's end may tell ssh clients that bind their session: what the agent answered to the bridge's own bind.
 * An answer that turned out otherwise is not told again, before the agent has answered the bridge differently.
 */
export class BindAnswers {
  readonly #onChange: (answerType: number | undefined) => void;
  #told: number | undefined;
  #wrong: number | undefined;

  /** `onChange` gets the type of the answer that is told from now on, or nothing. */
  constructor(onChange: (answerType: number | undefined) => void) {
    this.#onChange = onChange;
  }

  /** The agent has answered the bridge's own bind with this type; undefined if it did not, or with more than a type. */
  learn(answerType: number | undefined): void {
    if (answerType === this.#wrong && answerType !== undefined) return;
    this.#wrong = undefined;
    this.#tell(answerType);
  }

  /** A client was told this answer, and the agent gave it another. */
  differed(answerType: number): void {
    this.#wrong = answerType;
    if (this.#told === answerType) this.#tell(undefined);
  }

  #tell(answerType: number | undefined): void {
    if (answerType === this.#told) return;
    this.#told = answerType;
    this.#onChange(answerType);
  }
}
