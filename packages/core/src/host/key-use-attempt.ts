import { BridgeError, toBridgeError } from '../errors.ts';
import type { GpgGrant } from './gpg-grant.ts';
import type { KeyUsages } from './key-usages.ts';
import { type KeyUse, type KeyUseRecord, NO_RECORD, type RecordedUse } from './key-use-record.ts';
import { type PaceOutcome, PromptPace, type Turn } from './prompt-pace.ts';

/** What belongs to a target as a whole, for all its sessions. */
export interface TargetUse {
  pace: PromptPace;
  record: KeyUseRecord;
  /** What the target may ask of gpg-agent, if it was narrowed or widened. */
  grant?: GpgGrant | undefined;
  /** What the host's keys are for; absent: no usage is known. */
  usages?: Pick<KeyUsages, 'of' | 'prepare' | 'alsoSigns'> | undefined;
  /** Why no key may be used at this moment, if that is so. */
  suspended?: (() => BridgeError | undefined) | undefined;
  /**
   * Keeps others from reading the terminals in which a person may be asked, until the result is called; that is there
   * at once if there are none.
   */
  holdTerminals?: (() => Promise<() => void> | (() => void)) | undefined;
  /** Why the target may not make this use, as the grant is by now; asked again whenever a use has waited. */
  forbidden?: ((use: KeyUse) => BridgeError | undefined) | undefined;
  /** The only SSH keys of sessions that begin, where the grant was narrowed since the bridge came up. */
  sshKeys?: readonly string[] | undefined;
  /** How often the grant was narrowed since the bridge came up. */
  narrowings?: number | undefined;
  /** Asks the person on the host about a use; `signal` takes the question back. */
  confirm?: ((use: KeyUse, signal: AbortSignal) => Promise<boolean>) | undefined;
  /** Tells the person on the host of a use that has ended. */
  notify?: ((use: KeyUse, outcome: string) => void) | undefined;
}

/** For a target whose uses nobody records, as in a demonstration. */
export function unrecordedUse(): TargetUse {
  return { pace: new PromptPace(), record: NO_RECORD };
}

/**
 * One use of a key, from the moment it is asked for to its end: it waits for its turn, is put on record, and is
 * confirmed where a person wants that, all before an agent hears of it.
 */
export class KeyUseAttempt {
  #turn: Turn | undefined;
  #recorded: RecordedUse | undefined;
  #releaseTerminals = () => {};
  #question: AbortController | undefined;
  /** Of one that waits for its turn. */
  #givenUp: AbortController | undefined;
  #isAsking = false;
  #declined = false;
  #isOver = false;
  readonly #narrowings: number;

  /** `notGranted`: why the grant, as it is by now, does not have this use with this key. */
  constructor(
    private readonly target: TargetUse,
    readonly use: KeyUse,
    private readonly notGranted: () => string | undefined = () => undefined,
  ) {
    this.#narrowings = target.narrowings ?? 0;
  }

  /** Resolves, or returns at once, with why the use must not begin; undefined if it may. */
  begin(): BridgeError | undefined | Promise<BridgeError | undefined> {
    const refused = this.#refused();
    if (refused) return refused;
    const { use } = this;
    const turn = this.target.pace.enter(use.key ?? use.command, () => {
      this.#givenUp = new AbortController();
      return this.#givenUp.signal;
    });
    if (!(turn instanceof Promise)) return this.#enter(turn);
    return turn.then((entered) => this.#enter(entered, this.#refused()));
  }

  /** It is answered, or never will be; returns why the answer must not leave, if it must not. */
  finish(outcome: string, durationMs: number, pace: PaceOutcome): BridgeError | undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    // Only what still waits is told: the error that an abort makes takes longer than all the rest here.
    if (!this.#turn) this.#givenUp?.abort();
    if (this.#isAsking) this.#question?.abort();
    // While a person is asked, or may be by the agent, who goes on, the terminals are theirs.
    else if (pace !== 'left') this.#releaseTerminals();
    // A question that was taken back has been seen, too: a target must not flood a person with such.
    this.#turn?.leave(this.#declined || this.#isAsking ? 'cancelled' : pace);
    if (!this.#recorded) return undefined;
    const refused = outcome === 'ok' ? this.#refused() : undefined;
    const told = refused ? 'refused' : outcome;
    try {
      this.#recorded.finish(told, durationMs);
    } catch (error) {
      return toBridgeError(error, "the use of the key can't be recorded");
    }
    this.target.notify?.(this.use, told);
    return refused;
  }

  /** The client owes the data of an inquiry: meanwhile the agent asks nobody, and terminals may be read. */
  awaitsClient(): void {
    this.#turn?.awaitsClient(true);
    this.#releaseTerminals();
    this.#releaseTerminals = () => {};
  }

  /** The client has sent the data; resolves, or returns at once, with why the agent must not get its end. */
  resume(): BridgeError | undefined | Promise<BridgeError | undefined> {
    this.#turn?.awaitsClient(false);
    const refused = this.refusalByNow();
    if (refused) return refused;
    const held = this.target.holdTerminals?.();
    if (!(held instanceof Promise)) {
      this.#releaseTerminals = held ?? (() => {});
      return undefined;
    }
    return held.then((release) => {
      if (this.#isOver)
        release(); // the client left meanwhile
      else this.#releaseTerminals = release;
      return this.refusalByNow();
    });
  }

  /** Why one that has begun must not go on, if something has changed since. */
  refusalByNow(): BridgeError | undefined {
    return this.#isNarrowed ? narrowedMeanwhile() : this.#refused();
  }

  /** What was allowed when the use began was more than is allowed now: it would have to be asked about again. */
  get #isNarrowed(): boolean {
    return this.#narrowings !== (this.target.narrowings ?? 0);
  }

  /** The agent has answered for a client that had left. */
  finishLate(pace: PaceOutcome): void {
    this.#releaseTerminals();
    this.#turn?.leave(pace);
  }

  /** Why no key may be used now, or not this one. */
  #refused(): BridgeError | undefined {
    const refused = this.target.suspended?.() ?? this.target.forbidden?.(this.use);
    if (refused) return refused;
    const why = this.notGranted();
    return why === undefined ? undefined : notGranted(why);
  }

  /** Goes on when it is its turn; `refused` says why it must not after all. */
  #enter(turn: Turn, refused?: BridgeError): BridgeError | undefined | Promise<BridgeError | undefined> {
    this.#turn = turn;
    if (this.#isOver) {
      turn.leave('other'); // the client left before its turn
      return undefined;
    }
    const refusal = refused ?? this.#putOnRecord();
    if (refusal) return refusal;
    const held = this.target.holdTerminals?.();
    if (held instanceof Promise) return held.then((release) => this.#hold(release));
    this.#releaseTerminals = held ?? (() => {});
    return this.#confirm();
  }

  /** Goes on when nobody else reads the terminals. */
  #hold(release: () => void): BridgeError | undefined | Promise<BridgeError | undefined> {
    if (this.#isOver) {
      release(); // the client left meanwhile
      return undefined;
    }
    this.#releaseTerminals = release;
    return this.#refused() ?? this.#confirm();
  }

  #confirm(): Promise<BridgeError | undefined> | undefined {
    const { confirm } = this.target;
    return confirm && this.#ask(confirm);
  }

  /** An operation that can't be recorded is not carried out. */
  #putOnRecord(): BridgeError | undefined {
    try {
      this.#recorded = this.target.record.begin(this.use);
      return undefined;
    } catch (error) {
      return toBridgeError(error, "the use of the key can't be recorded");
    }
  }

  async #ask(confirm: NonNullable<TargetUse['confirm']>): Promise<BridgeError | undefined> {
    this.#question = new AbortController();
    this.#isAsking = true;
    const isAllowed = await confirm(this.use, this.#question.signal).catch(() => false);
    this.#isAsking = false;
    if (this.#isOver) this.#releaseTerminals();
    if (isAllowed) return this.#refused();
    this.#declined = !this.#isOver;
    return notConfirmed();
  }
}

function notGranted(why: string): BridgeError {
  return new BridgeError('NOT_GRANTED', {
    what: 'the key was not used',
    why,
    fix: 'Use another key.',
  });
}

function narrowedMeanwhile(): BridgeError {
  return new BridgeError('NOT_GRANTED', {
    what: 'the key was not used',
    why: 'what the target may do was narrowed while its client kept the request open',
    fix: 'Try again.',
  });
}

function notConfirmed(): BridgeError {
  return new BridgeError('NOT_CONFIRMED', {
    what: 'the key was not used',
    why: 'it was not confirmed on the host, which --confirm asks for',
    fix: 'Try again, and allow it on the host.',
  });
}
