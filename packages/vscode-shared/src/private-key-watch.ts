import { PERSON_WAITS_AFTER_MS, purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';

/** An exchange with a private key that has no answer yet. */
interface PendingExchange {
  purpose: string;
  timer?: NodeJS.Timeout | undefined;
  settle?: (() => void) | undefined;
}

/**
 * Notices when a private-key command stays unanswered, and when that is over. An answer of INQUIRE is
 * not the end of it: the command goes on when the inquired data has been sent.
 */
export class PrivateKeyWatch {
  readonly #sessions = new Map<string, PendingExchange>();

  /** `onWaiting` is told the purpose, and returns what to call when the wait is over. */
  constructor(
    readonly onWaiting: (purpose: string) => () => void,
    readonly patienceMs = PERSON_WAITS_AFTER_MS,
  ) {}

  /** Runs one exchange of a session under watch. */
  async exchange(
    sessionId: string,
    block: string,
    send: () => Promise<{ response: string }>,
  ): Promise<{ response: string }> {
    const purpose = purposeOf(commandOf(block)) ?? this.#sessions.get(sessionId)?.purpose;
    if (purpose === undefined) return send();
    const pending: PendingExchange = { purpose };
    pending.timer = setTimeout(() => {
      pending.settle = this.onWaiting(purpose);
    }, this.patienceMs);
    this.#sessions.set(sessionId, pending);
    let inquires = false;
    try {
      const answer = await send();
      inquires = /(^|\n)INQUIRE[^\n]*\n$/.test(answer.response.slice(-LINE_BYTES));
      return answer;
    } finally {
      clearTimeout(pending.timer);
      pending.settle?.();
      if (!inquires) this.#sessions.delete(sessionId);
    }
  }

  /** Forgets a session that ended in the middle of an inquiry. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }
}

/** The longest Assuan line, with CR and LF. */
const LINE_BYTES = 1_002;

/** The command word of a block; empty for the data of an inquiry. */
function commandOf(block: string): string {
  return /^(?:[ \t]*(?:#[^\n]*)?\r?\n)*([A-Za-z_]{2,32})\b/.exec(block)?.[1]?.toUpperCase() ?? '';
}
