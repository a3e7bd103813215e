import type { GivingUp } from './giving-up.ts';
import type { FirstQuestions, OpenAgent, OpenOutcome } from './open-agent.ts';

/**
 * How many connections may be in the making at once. An agent's own queue has 64 places: with more attempts than
 * that, each tried again and again, an agent that has just been started would never get through them.
 */
const MOST_AT_ONCE = 32;
/** One that has waited so long fails with the one before it: an agent that hangs would make it wait for ever. */
const PATIENCE_MS = 5_000;

interface Waiting {
  outcome: OpenOutcome;
  signal: GivingUp | undefined;
  questions: FirstQuestions | undefined;
  since: number;
}

/** Opens connections a few at a time, the others in the order in which they were asked for. */
export class OpeningQueue {
  readonly #open: OpenAgent;
  readonly #waiting: Waiting[] = [];
  #opening = 0;

  constructor(open: OpenAgent) {
    this.#open = open;
  }

  open(outcome: OpenOutcome, signal?: GivingUp, questions?: FirstQuestions): void {
    if (this.#opening < MOST_AT_ONCE) this.#start(outcome, signal, questions);
    else this.#waiting.push({ outcome, signal, questions, since: performance.now() });
  }

  #start(outcome: OpenOutcome, signal: GivingUp | undefined, questions: FirstQuestions | undefined): void {
    let isOver = false;
    const over = () => {
      if (isOver) return;
      isOver = true;
      signal?.removeEventListener('abort', over);
      this.#opening--;
      this.#startNext();
    };
    this.#opening++;
    signal?.addEventListener('abort', over);
    this.#open(
      {
        opened(agent) {
          outcome.opened(agent);
          over();
        },
        failed: (error) => {
          outcome.failed(error);
          const late = performance.now() - PATIENCE_MS;
          while (this.#waiting[0] && this.#waiting[0].since < late) {
            const { outcome: next, signal: given } = this.#waiting.shift()!;
            if (!given?.aborted) next.failed(error);
          }
          over();
        },
      },
      signal,
      questions,
    );
  }

  #startNext(): void {
    while (this.#opening < MOST_AT_ONCE && this.#waiting.length > 0) {
      const { outcome, signal, questions } = this.#waiting.shift()!;
      if (!signal?.aborted) this.#start(outcome, signal, questions);
    }
  }
}
