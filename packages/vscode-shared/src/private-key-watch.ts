/** The commands that use a private key, and so may wait for a PIN, a passphrase or a touch. */
const PRIVATE_KEY_COMMANDS = {
  PKSIGN: 'a signature',
  PKDECRYPT: 'a decryption',
  PKAUTH: 'an authentication',
} as const;

/** What a private-key command is for, in a person's words. */
export function purposeOf(command: string): string | undefined {
  return Object.hasOwn(PRIVATE_KEY_COMMANDS, command)
    ? PRIVATE_KEY_COMMANDS[command as keyof typeof PRIVATE_KEY_COMMANDS]
    : undefined;
}

/** How long a private-key command may take before a person is probably being waited for. */
const PATIENCE_MS = 1_000;

interface Watched {
  purpose: string;
  timer?: NodeJS.Timeout | undefined;
  settle?: (() => void) | undefined;
}

/**
 * Notices when a private-key command stays unanswered, and when that is over. An answer of INQUIRE is
 * not the end of it: the command goes on when the inquired data has been sent.
 */
export class PrivateKeyWatch {
  readonly #sessions = new Map<string, Watched>();

  /** `onWaiting` is told the purpose, and returns what to call when the wait is over. */
  constructor(
    readonly onWaiting: (purpose: string) => () => void,
    readonly patienceMs = PATIENCE_MS,
  ) {}

  /** Runs one exchange of a session under watch. */
  async exchange(
    sessionId: string,
    block: string,
    send: () => Promise<{ response: string }>,
  ): Promise<{ response: string }> {
    const purpose = purposeOf(commandOf(block)) ?? this.#sessions.get(sessionId)?.purpose;
    if (purpose === undefined) return send();
    const watched: Watched = { purpose };
    watched.timer = setTimeout(() => {
      watched.settle = this.onWaiting(purpose);
    }, this.patienceMs);
    this.#sessions.set(sessionId, watched);
    let inquires = false;
    try {
      const answer = await send();
      inquires = /(^|\n)INQUIRE[^\n]*\n$/.test(answer.response.slice(-LINE_BYTES));
      return answer;
    } finally {
      clearTimeout(watched.timer);
      watched.settle?.();
      if (!inquires) this.#sessions.delete(sessionId);
    }
  }

  /** Forgets a session that ended in the middle of an inquiry. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }
}

/** No Assuan line is longer, its LF and a CR included. */
const LINE_BYTES = 1_002;

/** The command word of a block; empty for the data of an inquiry. */
function commandOf(block: string): string {
  return /^(?:[ \t]*(?:#[^\n]*)?\r?\n)*([A-Za-z_]{2,32})\b/.exec(block)?.[1]?.toUpperCase() ?? '';
}
