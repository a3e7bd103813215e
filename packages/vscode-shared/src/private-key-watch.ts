import { PERSON_WAITS_AFTER_MS, purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';

/** A use of a private key that waits for the person. */
export interface WaitingUse {
  sessionId: string;
  /** What it makes, in a person's words. */
  purpose: string;
  /** The keygrip, where the client has said which. */
  key?: string | undefined;
}

/** An exchange with a private key that has no answer yet. */
interface PendingExchange {
  purpose: string;
  timer?: NodeJS.Timeout | undefined;
  settle?: (() => void) | undefined;
}

/** The longest Assuan line, with CR and LF. */
const LINE_BYTES = 1_002;
/** Sessions whose key is remembered; more than there can be open at once. */
const MOST_KEYS = 1_024;

/**
 * Notices when a private-key command stays unanswered, and when that is over. An answer of INQUIRE is
 * not the end of it: the command goes on when the inquired data has been sent.
 */
export class PrivateKeyWatch {
  readonly #sessions = new Map<string, PendingExchange>();
  readonly #keys = new Map<string, string>();

  /** `onWaiting` is told the use, and returns what to call when the wait is over. */
  constructor(
    readonly onWaiting: (use: WaitingUse) => () => void,
    readonly patienceMs = PERSON_WAITS_AFTER_MS,
  ) {}

  /** Runs one exchange of a session under watch; `told` are the lines ahead of the block. */
  async exchange<Answer extends { response: string }>(
    sessionId: string,
    block: string,
    send: () => Promise<Answer>,
    told = '',
  ): Promise<Answer> {
    this.#noteKey(sessionId, told + block);
    const purpose = purposeOf(commandOf(block)) ?? this.#sessions.get(sessionId)?.purpose;
    if (purpose === undefined) return send();
    const pending: PendingExchange = { purpose };
    pending.timer = setTimeout(() => {
      pending.settle = this.onWaiting({ sessionId, purpose, key: this.#keys.get(sessionId) });
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

  /** Forgets a session that ended. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
    this.#keys.delete(sessionId);
  }

  #noteKey(sessionId: string, block: string): void {
    const chosen = [...block.matchAll(/^(?:SIGKEY|SETKEY)[ \t]+([0-9A-F]{40})\b/gim)];
    const key = chosen.at(-1)?.[1];
    if (!key) return;
    this.#keys.set(sessionId, key.toUpperCase());
    const [oldest] = this.#keys.keys();
    if (this.#keys.size > MOST_KEYS && oldest !== undefined) this.#keys.delete(oldest);
  }
}

/** The command word of a block; empty for the data of an inquiry. */
function commandOf(block: string): string {
  return /^(?:[ \t]*(?:#[^\n]*)?\r?\n)*([A-Za-z_]{2,32})\b/.exec(block)?.[1]?.toUpperCase() ?? '';
}
