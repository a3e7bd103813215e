import { type Admission, type GateRules, PASS } from '../assuan/command-gate.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import type { Operation, Outcome, PendingOperation } from '../assuan/operation.ts';
import { isKeyUse, usesPrivateKey } from '../assuan/private-key-commands.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import type { BridgeError, ErrorCode } from '../errors.ts';
import { decideCommand } from './decide-command.ts';
import { decideByGrant, type GpgGrant } from './gpg-grant.ts';
import { decideByUsage, type KeyUsage, usageOfBoth } from './key-usage.ts';
import { KeyUseAttempt, type TargetUse } from './key-use-attempt.ts';
import type { PaceOutcome } from './prompt-pace.ts';

/** For a target about which nothing was said. */
const NOTHING_SAID: GpgGrant = {};

/** What gpg is told, which shows its user the code's own words and nothing else. */
const CODES: Partial<Record<ErrorCode, number>> = {
  NOT_CONFIRMED: GPG_ERROR.NOT_CONFIRMED,
  PAUSED: GPG_ERROR.NOT_OPERATIONAL,
  TIME_OVER: GPG_ERROR.NOT_OPERATIONAL,
  NOT_GRANTED: GPG_ERROR.FORBIDDEN,
};

/**
 * The rules for one session: which commands pass, when a use of a private key may go to the agent, and that it is
 * on record before the agent gets it and before its answer leaves.
 */
export class KeyUseRules implements GateRules {
  #attempt: KeyUseAttempt | undefined;
  /** That of a client which has left, as long as the agent is still at it. */
  #left: KeyUseAttempt | undefined;
  /** The command that waits until the usage of its key is known. */
  #awaitsUsage: PendingOperation | undefined;
  /** What the log says in addition about the command that is going on. */
  #note: string | undefined;
  /** Why the bridge has refused a command, until it is told of. */
  #refusal: string | undefined;

  constructor(
    private readonly target: TargetUse,
    /** Told of every finished command. */
    private readonly onOperation: (operation: Operation) => void,
    /** The client session, for the record. */
    private readonly session: number | string,
  ) {}

  admit(operation: PendingOperation, block: Buffer): Admission | Promise<Admission> {
    const decided = decideCommand(operation, block, this.target.grant);
    if (decided) {
      if ('answer' in decided) this.#refusal = decided.why;
      return decided;
    }
    if (!isKeyUse(operation.command)) return PASS;
    if (!usesPrivateKey(operation.command)) return this.#begin(operation);
    const usage = this.#usageOf(operation);
    if (!(usage instanceof Promise)) return this.#beginWith(operation, usage);
    this.#awaitsUsage = operation;
    return usage.then((known) => {
      // The client has left meanwhile: nothing begins, and nobody hears of this.
      if (this.#awaitsUsage !== operation) return PASS;
      const { grant = NOTHING_SAID } = this.target; // it may have been narrowed meanwhile
      return (
        decideByGrant(operation, Buffer.from(operation.command), grant) ?? this.#beginWith(operation, known)
      );
    });
  }

  /** Undefined where nobody looks usages up. */
  #usageOf({ key, another }: PendingOperation): KeyUsage | undefined | Promise<KeyUsage> {
    const { usages } = this.target;
    if (!usages || another === undefined) return usages?.of(key);
    return Promise.all([usages.of(key), usages.of(another)]).then(([one, two]) => usageOfBoth(one, two));
  }

  /** Whether the key's usage lets the grant have this command; without any lookup of usages there is nothing to note. */
  #beginWith(operation: PendingOperation, usage: KeyUsage | undefined): Admission | Promise<Admission> {
    const decide = () => decideByUsage(operation.command, usage, this.target.grant ?? NOTHING_SAID);
    const { refused, note } = decide();
    this.#note = refused ?? (usage && note);
    if (refused) return { answer: errLine(GPG_ERROR.FORBIDDEN, refused) };
    return this.#begin(operation, () => decide().refused);
  }

  #begin(
    { command, key, another, startedAt: time }: PendingOperation,
    refusedByUsage?: () => string | undefined,
  ): Admission | Promise<Admission> {
    const use = { time, session: this.session, command, key, another, note: this.#note };
    const attempt = new KeyUseAttempt(this.target, use, refusedByUsage);
    this.#attempt = attempt;
    const refusal = attempt.begin();
    return refusal instanceof Promise
      ? refusal.then((why) => this.#admission(why))
      : this.#admission(refusal);
  }

  #admission(refusal: BridgeError | undefined): Admission {
    const answer = this.#refuse(refusal);
    return answer ? { answer } : PASS;
  }

  #refuse(refusal: BridgeError | undefined): Buffer | undefined {
    if (!refusal) return undefined;
    this.#refusal = refusal.why;
    return refusalLine(refusal);
  }

  finished(operation: Operation, goesOn = false): Buffer | undefined {
    const attempt = this.#attempt;
    // A told line may be refused while another one is with the agent: that one is not told with the reason.
    const note = operation.outcome === 'refused' ? (this.#refusal ?? this.#note) : this.#note;
    if (operation.outcome === 'refused') this.#refusal = undefined;
    this.#attempt = undefined;
    this.#awaitsUsage = undefined;
    this.#note = undefined;
    if (goesOn) this.#left = attempt;
    const { outcome, durationMs } = operation;
    const failure = attempt?.finish(outcome, durationMs, goesOn ? 'left' : paceOf(outcome));
    const told: Operation = note === undefined ? operation : { ...operation, note };
    this.onOperation(failure ? { ...told, outcome: 'refused' } : told);
    return failure && refusalLine(failure);
  }

  awaitsClient(): void {
    this.#attempt?.awaitsClient();
  }

  resumes(): Buffer | undefined | Promise<Buffer | undefined> {
    const refusal = this.#attempt?.resume();
    return refusal instanceof Promise ? refusal.then((why) => this.#refuse(why)) : this.#refuse(refusal);
  }

  finishedLate(outcome: Outcome): void {
    this.#left?.finishLate(paceOf(outcome));
  }
}

function paceOf(outcome: Outcome): PaceOutcome {
  return outcome === 'ok' || outcome === 'cancelled' ? outcome : 'other';
}

function refusalLine(refusal: BridgeError): Buffer {
  return errLine(CODES[refusal.code] ?? GPG_ERROR.LIMIT_REACHED, refusal.message);
}
