import { describeError, failureKind } from '@gpg-bridge/core/assuan/error-codes';
import type { Operation, PendingOperation } from '@gpg-bridge/core/assuan/operation';
import { isKeyUse, PERSON_WAITS_AFTER_MS } from '@gpg-bridge/core/assuan/private-key-commands';

/** One thing that was asked of the host's keys. */
export interface JournalEntry {
  /** ISO time at which it was answered: a log is in the order of its times. */
  time: string;
  /** The client session, by the number of its stream. */
  session: number;
  command: string;
  /** Keygrip of an OpenPGP key, or fingerprint of an SSH key. */
  key?: string;
  /**
   * `ok`; `cancelled`, `timeout`, `wrong-passphrase` or `refused` by a person or the agent, `no-secret-key`, `error`
   * for any other reason, `closed` when the connection ended first.
   */
  outcome: string;
  /** The agent's error, in libgpg-error's words. */
  error?: string;
  durationMs: number;
}

/** A session that is open, as far as the journal looks at it. */
export interface JournaledSession {
  /** What its client waits for, if it waits. */
  readonly pending: PendingOperation | undefined;
}

/** Commands that use no key; gpg sends a dozen of them with every signature, ssh the last two. */
const SMALL_TALK: ReadonlySet<string> = new Set([
  'RESET',
  'OPTION',
  'GETINFO',
  'HAVEKEY',
  'KEYINFO',
  'SIGKEY',
  'SETKEY',
  'SETKEYDESC',
  'SETHASH',
  'SCD',
  'NOP',
  'HELP',
  'BYE',
  'GETEVENTCOUNTER',
  'list',
  'session-bind',
]);

/** The record of operations, and what the open sessions wait for now. */
export class Journal {
  lastOperation: JournalEntry | undefined;
  /** Milliseconds since the epoch at which a use of a key ended last; 0 if none did. */
  #usedAt = 0;
  readonly #sessions = new Set<JournaledSession>();
  readonly #record: (entry: JournalEntry) => void;
  #idle: (() => void)[] = [];

  constructor(record: (entry: JournalEntry) => void) {
    this.#record = record;
  }

  /** A session begins. */
  begin(session: JournaledSession): void {
    this.#sessions.add(session);
  }

  /** A session has ended. */
  end(session: JournaledSession): void {
    this.#sessions.delete(session);
    this.#tellIdle();
  }

  /** Resolves when no private key is in use. */
  untilIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#tellIdle();
    });
  }

  /** When a key was used last, in milliseconds since the epoch: now, while one is in use; 0 if none was. */
  lastUse(now = Date.now()): number {
    return this.#isInUse() ? now : this.#usedAt;
  }

  #isInUse(): boolean {
    for (const { pending } of this.#sessions) if (pending && mayAskPerson(pending)) return true;
    return false;
  }

  #tellIdle(): void {
    if (this.#idle.length === 0 || this.#isInUse()) return;
    for (const tell of this.#idle.splice(0)) tell();
  }

  /** Records an operation, unless its command uses no key. */
  operation(session: number, operation: Omit<Operation, 'outcome'> & { outcome: string }): void {
    if (SMALL_TALK.has(operation.command)) return;
    const { command, key, outcome, errorCode, startedAt, durationMs } = operation;
    if (outcome !== 'refused' && mayAskPerson(operation)) this.#usedAt = startedAt + durationMs;
    const kind = errorCode === undefined || outcome !== 'error' ? undefined : failureKind(errorCode);
    this.lastOperation = {
      time: new Date(startedAt + durationMs).toISOString(),
      session,
      command,
      ...(key === undefined ? {} : { key }),
      outcome: kind ?? outcome,
      ...(errorCode === undefined ? {} : { error: describeError(errorCode) }),
      durationMs: Math.round(durationMs),
    };
    this.#record(this.lastOperation);
    this.#tellIdle();
  }

  /** The operation that has been waiting for a person the longest, if any does. */
  waiting(now = Date.now()): { command: string; key?: string; sinceSeconds: number } | undefined {
    let longest: PendingOperation | undefined;
    for (const session of this.#sessions) {
      const { pending } = session;
      if (!pending || !mayAskPerson(pending) || now - pending.startedAt < PERSON_WAITS_AFTER_MS) continue;
      if (!longest || pending.startedAt < longest.startedAt) longest = pending;
    }
    if (!longest) return undefined;
    const { command, key, startedAt } = longest;
    return {
      command,
      ...(key === undefined ? {} : { key }),
      sinceSeconds: Math.round((now - startedAt) / 1000),
    };
  }
}

/** Whether a person may be asked about it: for a use of a key of gpg-agent's, or a signature of ssh-agent's. */
function mayAskPerson({ command }: PendingOperation): boolean {
  return isKeyUse(command) || command === 'sign';
}
