import type { OnceEntry } from '../assuan/answer-table.ts';
import { isKeyUse, usesPrivateKey } from '../assuan/private-key-commands.ts';
import { noAgentLine } from '../assuan/unavailable-agent.ts';
import type { AnswersAhead } from './answers-ahead.ts';

/** A line that the client was given an answer to. */
export interface Told {
  readonly id: number;
  readonly answer: string;
}

/** What a client gets whose told answer was not an error of the agent's. */
export const CHANGED: Buffer = noAgentLine("the agent's answers changed");

/** A told line that no table of ours has: no answer is as told. */
export const UNKNOWN_TOLD: Told = { id: 0, answer: '' };

/**
 * What one client was told, compared with what the agent really answers. While an answer differs, the next command
 * that waits does not go to the agent, and no private key is used before a RESET was really answered OK.
 */
export class ToldAnswers {
  readonly #answers: AnswersAhead;
  /** Answers that were sent along and not used yet. */
  readonly #once = new Map<number, OnceEntry>();
  /** What the next command that waits is answered with, since an answer ahead of it was not as told. */
  #difference: Buffer | undefined;
  /** What uses of private keys are answered with until a RESET was really answered OK. */
  #refusal: Buffer | undefined;

  constructor(answers: AnswersAhead) {
    this.#answers = answers;
  }

  /** Answers leave for the client; each of them may be told once. */
  sentAlong(entries: readonly OnceEntry[]): void {
    for (const entry of entries) this.#once.set(entry.id, entry);
  }

  /** What the client was told; undefined if none of our targets would have told that. */
  find(id: number, line: string, command: string): Told | undefined {
    const once = this.#once.get(id);
    this.#once.delete(id);
    if (isKeyUse(command)) return undefined;
    if (once?.line !== line) return this.#answers.entryFor(id, line);
    this.#answers.used(line);
    return once;
  }

  /** Whether every answer so far was as told, or its difference was given to the client. */
  get isAsTold(): boolean {
    return this.#difference === undefined;
  }

  /** The agent's whole answer to a told line; an inquiry was cancelled, and is not as told whatever came of it. */
  compare(told: Told, answer: string, hasInquired: boolean): void {
    if (answer === told.answer && !hasInquired) return;
    const last = answer.slice(answer.lastIndexOf('\n', answer.length - 2) + 1);
    const error = last.startsWith('ERR ') && !hasInquired ? Buffer.from(last, 'latin1') : CHANGED;
    this.#difference ??= error;
    this.#refusal ??= error;
    this.#answers.differed(told, answer);
  }

  /** What a command that waits is answered with in the agent's place, if it must not get there. */
  refusalOf(command: string): Buffer | undefined {
    const difference = this.#difference;
    this.#difference = undefined;
    return difference ?? (usesPrivateKey(command) ? this.#refusal : undefined);
  }

  /** A RESET was really answered OK. */
  wasReset(): void {
    this.#refusal = undefined;
  }
}
