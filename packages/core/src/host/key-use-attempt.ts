import { BridgeError, toBridgeError } from '../errors.ts';
import type { GpgGrant } from './gpg-grant.ts';
import { type KeyUse, type KeyUseRecord, NO_RECORD, type RecordedUse } from './key-use-record.ts';
import { type PaceOutcome, PromptPace, type Turn } from './prompt-pace.ts';

/** What belongs to a target as a whole, for all its sessions. */
export interface TargetUse {
  pace: PromptPace;
  record: KeyUseRecord;
  /** What the target may ask of gpg-agent, if it was narrowed or widened. */
  grant?: GpgGrant | undefined;
  /** Why no key may be used at this moment, if that is so. */
  suspended?: (() => BridgeError | undefined) | undefined;
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
  #question: AbortController | undefined;
  /** Of one that waits for its turn. */
  #givenUp: AbortController | undefined;
  #isAsking = false;
  #declined = false;
  #isOver = false;

  constructor(
    private readonly target: TargetUse,
    readonly use: KeyUse,
  ) {}

  /** Resolves, or returns at once, with why the use must not begin; undefined if it may. */
  begin(): BridgeError | undefined | Promise<BridgeError | undefined> {
    const suspended = this.target.suspended?.();
    if (suspended) return suspended;
    const { use } = this;
    const turn = this.target.pace.enter(use.key ?? use.command, () => {
      this.#givenUp = new AbortController();
      return this.#givenUp.signal;
    });
    if (!(turn instanceof Promise)) return this.#enter(turn);
    return turn.then((entered) => this.#enter(entered, this.target.suspended?.()));
  }

  /** It is answered, or never will be; returns why the answer must not leave, if it must not. */
  finish(outcome: string, durationMs: number, pace: PaceOutcome): BridgeError | undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    // Only what still waits is told: the error that an abort makes takes longer than all the rest here.
    if (!this.#turn) this.#givenUp?.abort();
    if (this.#isAsking) this.#question?.abort();
    // A question that was taken back has been seen, too: a target must not flood a person with such.
    this.#turn?.leave(this.#declined || this.#isAsking ? 'cancelled' : pace);
    if (!this.#recorded) return undefined;
    const suspended = outcome === 'ok' ? this.target.suspended?.() : undefined;
    const told = suspended ? 'refused' : outcome;
    try {
      this.#recorded.finish(told, durationMs);
    } catch (error) {
      return toBridgeError(error, "the use of the key can't be recorded");
    }
    this.target.notify?.(this.use, told);
    return suspended;
  }

  /** The agent has answered for a client that had left. */
  finishLate(pace: PaceOutcome): void {
    this.#turn?.leave(pace);
  }

  /** Goes on when it is its turn; `suspended` says why it must not after all. */
  #enter(turn: Turn, suspended?: BridgeError): BridgeError | undefined | Promise<BridgeError | undefined> {
    this.#turn = turn;
    if (this.#isOver) {
      turn.leave('other'); // the client left before its turn
      return undefined;
    }
    const refusal = suspended ?? this.#putOnRecord();
    if (refusal) return refusal;
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
    if (isAllowed) return this.target.suspended?.();
    this.#declined = !this.#isOver;
    return notConfirmed();
  }
}

function notConfirmed(): BridgeError {
  return new BridgeError('NOT_CONFIRMED', {
    what: 'the key was not used',
    why: 'it was not confirmed on the host, which --confirm asks for',
    fix: 'Try again and allow it there, or bring the bridge up with --no-confirm.',
  });
}
