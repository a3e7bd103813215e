import { BridgeError } from '../errors.ts';
import { type Block, BlockScanner } from './block-scanner.ts';

/** Answers to a few questions are small; an agent that sends more than this is none. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * The answers to lines that were sent to an agent together. Only for lines that no agent asks anything back to: an
 * inquiry is an error.
 */
export class Questions {
  readonly answers: Block[] = [];
  readonly #count: number;
  readonly #scanner = new BlockScanner({ maxBlock: MAX_ANSWER_BYTES });

  constructor(count: number) {
    this.#count = count;
  }

  /** Takes bytes of the agent, which it keeps; true when the last answer is there. Throws for what is no answer. */
  take(chunk: Buffer): boolean {
    this.#scanner.push(chunk);
    while (this.answers.length < this.#count) {
      const answer = this.#scanner.next('response');
      if (!answer) return false;
      if (answer.word === 'INQUIRE') throw unexpectedInquiry();
      this.answers.push(answer);
    }
    if (this.#scanner.buffered > 0) throw outOfTurn();
    return true;
  }
}

/** The error for an agent that has not answered in time. */
export function noAnswerInTime(agentName: string, timeoutMs: number): BridgeError {
  return new BridgeError('AGENT_RESPONSE_TIMEOUT', {
    what: `${agentName} did not answer`,
    why: `it was silent for ${timeoutMs} ms`,
    fix: 'Restart it with `gpgconf --kill gpg-agent`.',
  });
}

function unexpectedInquiry(): BridgeError {
  return new BridgeError('BAD_RESPONSE', {
    what: "the agent's answer cannot be used",
    why: 'it asks for data where it should answer',
    fix: 'Check that the socket belongs to a gpg-agent, and restart it.',
  });
}

function outOfTurn(): BridgeError {
  return new BridgeError('AGENT_OUT_OF_TURN', {
    what: "the host's gpg-agent spoke out of turn",
    why: 'it sent more than the responses it owed',
    fix: 'Check that the socket really belongs to gpg-agent.',
  });
}
