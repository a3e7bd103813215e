import type { Operation } from '@gpg-bridge/core/assuan/observer';

/** One thing that was asked of the host's keys. */
export interface JournalEntry {
  /** ISO time at which it was asked. */
  time: string;
  /** The client session, by the number of its stream. */
  session: number;
  command: string;
  /** Keygrip of an OpenPGP key, or fingerprint of an SSH key. */
  key?: string;
  outcome: string;
  durationMs: number;
}

/** An operation that has no answer yet. */
export interface PendingEntry {
  command: string;
  key?: string;
  startedAt: number;
}

/** What one session shows of itself while it runs. */
export interface Watched {
  pending(): PendingEntry | undefined;
}

/** Who wants to know when sessions come and go. */
export interface SessionWatcher {
  began(): void;
  /** The last one has ended. */
  quiet(): void;
}

/** gpg's small talk: twelve of these go with every signature, and none of them uses a key. */
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
]);

/** Operations for which gpg-agent may ask a person: a PIN, a passphrase, a touch. */
const ASKS_PERSON: ReadonlySet<string> = new Set(['PKSIGN', 'PKDECRYPT', 'PKAUTH', 'sign']);
/** An answer that takes longer than this most likely waits for somebody. */
const WAITING_AFTER_MS = 1_000;

/** Knows what the open sessions wait for, and what was asked last. */
export class Journal {
  lastOperation: JournalEntry | undefined;
  readonly #watched = new Set<Watched>();
  readonly #record: (entry: JournalEntry) => void;
  readonly #watcher: SessionWatcher | undefined;

  constructor(record: (entry: JournalEntry) => void, watcher?: SessionWatcher) {
    this.#record = record;
    this.#watcher = watcher;
  }

  /** A session begins. */
  begin(session: Watched): void {
    this.#watched.add(session);
    this.#watcher?.began();
  }

  /** A session has ended. */
  end(session: Watched): void {
    this.#watched.delete(session);
    if (this.#watched.size === 0) this.#watcher?.quiet();
  }

  /** Takes note of an operation, unless it is small talk. */
  operation(session: number, operation: Omit<Operation, 'outcome'> & { outcome: string }): void {
    if (SMALL_TALK.has(operation.command)) return;
    const { command, key, outcome, startedAt, durationMs } = operation;
    this.lastOperation = {
      time: new Date(startedAt).toISOString(),
      session,
      command,
      ...(key === undefined ? {} : { key }),
      outcome,
      durationMs: Math.round(durationMs),
    };
    this.#record(this.lastOperation);
  }

  /** The operation that has been waiting for a person the longest, if any does. */
  waiting(now = Date.now()): { command: string; key?: string; sinceSeconds: number } | undefined {
    let longest: PendingEntry | undefined;
    for (const session of this.#watched) {
      const pending = session.pending();
      if (!pending || !ASKS_PERSON.has(pending.command) || now - pending.startedAt < WAITING_AFTER_MS)
        continue;
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
