import { describeError, failureKind } from '@gpg-bridge/core/assuan/error-codes';
import type { Operation, PendingOperation } from '@gpg-bridge/core/assuan/operation';
import { isKeyUse, PERSON_WAITS_AFTER_MS } from '@gpg-bridge/core/assuan/private-key-commands';
import { operationName } from '../terminal/operation-words.ts';

/** One thing that was asked of the host's keys. */
export interface JournalEntry {
  /** ISO time at which it was answered: a log is in the order of its times. */
  time: string;
  /** The client session, by the number of its stream. */
  session: number;
  command: string;
  /** The same in a person's word: `signature`, `decryption`, `ssh login`. */
  operation: string;
  /** Keygrip of an OpenPGP key, or fingerprint of an SSH key. */
  key?: string;
  /** Whose key that is: its user ID, or the comment of an SSH key. */
  name?: string;
  /** Of an OpenPGP key: the fingerprint that `gpg -K` shows; of a subkey the one of its primary key. */
  fingerprint?: string;
  /**
   * `ok`; `cancelled`, `timeout`, `wrong-passphrase` or `refused` by a person or the agent, `no-secret-key`, `error`
   * for any other reason, `closed` when the connection ended first.
   */
  outcome: string;
  /** The agent's error, in libgpg-error's words. */
  error?: string;
  /** Why the bridge refused it, or what its key can do apart from what the operation is called. */
  note?: string;
  durationMs: number;
  /** Whether it took so long that a person was asked for a PIN, a passphrase or a touch. */
  person: boolean;
}

/** What a person knows a key by. */
export type KeyOwner = Pick<JournalEntry, 'fingerprint'> & { name: string };

/** An operation of gpg-agent's or ssh-agent's that has ended. */
type FinishedOperation = Omit<Operation, 'outcome'> & {
  outcome: string;
  purpose?: 'signature';
  /** The comment of an SSH key, as the agent lists it. */
  name?: string;
};

/** An operation that a person has to answer. */
export interface WaitingOperation {
  command: string;
  key?: string;
  /** Whose key that is. */
  name?: string;
  fingerprint?: string;
  sinceSeconds: number;
}

/** A session that is open, as far as the journal looks at it. */
export interface JournaledSession {
  /** What its client waits for, if it waits. */
  readonly pending: PendingOperation | undefined;
  /** Whether that client has sent its last byte; none that waits for a key does, unless it has gone. */
  readonly clientHasEnded?: boolean;
  /** Whether that client owes the data of an inquiry: nobody is at it then. */
  readonly awaitsClient?: boolean;
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

/**
 * Those of which GnuPG's own programs send some that every target is refused: lines of them are in no log, or each
 * signature would have several.
 */
const REFUSED_TO_ALL: ReadonlySet<string> = new Set(['OPTION', 'KEYINFO', 'SCD', 'HAVEKEY']);

/** The record of operations, and what the open sessions wait for now. */
export class Journal {
  lastOperation: JournalEntry | undefined;
  /** Milliseconds since the epoch at which a use of a key ended last; 0 if none did. */
  #usedAt = 0;
  readonly #sessions = new Set<JournaledSession>();
  readonly #record: (entry: JournalEntry) => void;
  readonly #ownerOf: (key: string) => KeyOwner | undefined;
  readonly #isHeldByClients: () => boolean;
  #idle: (() => void)[] = [];

  /** `isHeldByClients`: those that wait for their turn wait for clients that owe data, and for nobody else. */
  constructor(
    record: (entry: JournalEntry) => void,
    ownerOf: (key: string) => KeyOwner | undefined = () => undefined,
    isHeldByClients: () => boolean = () => false,
  ) {
    this.#record = record;
    this.#ownerOf = ownerOf;
    this.#isHeldByClients = isHeldByClients;
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

  /** A client has sent its last byte. */
  clientEnded(): void {
    this.#tellIdle();
  }

  /** A client owes the data of an inquiry. */
  clientAwaited(): void {
    this.#tellIdle();
  }

  /** Resolves when no private key is in use for a client that is still there. */
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
    if (this.#isHeldByClients()) return false;
    for (const session of this.#sessions) if (isAtIt(session)) return true;
    return false;
  }

  #isAwaited(): boolean {
    if (this.#isHeldByClients()) return false;
    for (const session of this.#sessions) if (isAtIt(session) && !session.clientHasEnded) return true;
    return false;
  }

  #tellIdle(): void {
    if (this.#idle.length === 0 || this.#isAwaited()) return;
    for (const tell of this.#idle.splice(0)) tell();
  }

  /** Records an operation, unless its command uses no key. */
  operation(session: number, operation: FinishedOperation): void {
    const { command, purpose, outcome, errorCode, note, startedAt, durationMs } = operation;
    if (SMALL_TALK.has(command) && (outcome !== 'refused' || REFUSED_TO_ALL.has(command))) return;
    if (outcome !== 'refused' && mayAskPerson(operation)) this.#usedAt = startedAt + durationMs;
    const kind = errorCode === undefined || outcome !== 'error' ? undefined : failureKind(errorCode);
    this.lastOperation = {
      time: new Date(startedAt + durationMs).toISOString(),
      session,
      command,
      operation: operationName(command, purpose),
      ...this.#key(operation),
      outcome: kind ?? outcome,
      ...(errorCode === undefined ? {} : { error: describeError(errorCode) }),
      ...(note === undefined ? {} : { note }),
      durationMs: Math.round(durationMs),
      person: mayAskPerson(operation) && durationMs >= PERSON_WAITS_AFTER_MS,
    };
    this.#record(this.lastOperation);
    this.#tellIdle();
  }

  /** The operation that has been waiting for a person the longest, if any does. */
  waiting(now = Date.now()): WaitingOperation | undefined {
    if (this.#isHeldByClients()) return undefined;
    let longest: PendingOperation | undefined;
    for (const session of this.#sessions) {
      const { pending } = session;
      if (!pending || !isAtIt(session) || now - pending.startedAt < PERSON_WAITS_AFTER_MS) continue;
      if (!longest || pending.startedAt < longest.startedAt) longest = pending;
    }
    if (!longest) return undefined;
    const { command, startedAt } = longest;
    return { command, ...this.#key(longest), sinceSeconds: Math.round((now - startedAt) / 1000) };
  }

  /** A key, and whose it is. */
  #key({ key, name }: { key?: string; name?: string }): Partial<KeyOwner> & { key?: string } {
    if (key === undefined) return {};
    return { key, ...this.#ownerOf(key), ...(name === undefined ? {} : { name }) };
  }
}

/** Whether a key is in use for a session, or is going to be, and its client owes nothing. */
function isAtIt({ pending, awaitsClient }: JournaledSession): boolean {
  return pending !== undefined && mayAskPerson(pending) && !awaitsClient;
}

/** Whether a person may be asked about it: for a use of a key of gpg-agent's, or a signature of ssh-agent's. */
function mayAskPerson({ command }: PendingOperation): boolean {
  return isKeyUse(command) || command === 'sign';
}
