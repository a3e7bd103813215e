import { type Admission, type GateRules, PASS } from '../assuan/command-gate.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import type { Operation, Outcome, PendingOperation } from '../assuan/operation.ts';
import { isKeyUse } from '../assuan/private-key-commands.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import type { BridgeError, ErrorCode } from '../errors.ts';
import { decideByGrant, type GpgGrant } from './gpg-grant.ts';
import { KeyUseAttempt, type TargetUse } from './key-use-attempt.ts';
import type { PaceOutcome } from './prompt-pace.ts';

/** For a target about which nothing was said. */
const NOTHING_SAID: GpgGrant = {};

/** What gpg is told, which shows its user the code's own words and nothing else. */
const CODES: Partial<Record<ErrorCode, number>> = {
  NOT_CONFIRMED: GPG_ERROR.NOT_CONFIRMED,
  PAUSED: GPG_ERROR.NOT_OPERATIONAL,
  TIME_OVER: GPG_ERROR.NOT_OPERATIONAL,
};

/**
 * The rules for one session: which commands pass, when a use of a private key may go to the agent, and that it is
 * on record before the agent gets it and before its answer leaves.
 */
export class KeyUseRules implements GateRules {
  #attempt: KeyUseAttempt | undefined;
  /** That of a client which has left, as long as the agent is still at it. */
  #left: KeyUseAttempt | undefined;

  constructor(
    private readonly target: TargetUse,
    /** Told of every finished command. */
    private readonly onOperation: (operation: Operation) => void,
    /** The client session, for the record. */
    private readonly session: number | string,
  ) {}

  admit(operation: PendingOperation, block: Buffer): Admission | Promise<Admission> {
    const decided = decideByGrant(operation, block, this.target.grant ?? NOTHING_SAID);
    if (decided) return decided;
    const { command, key, startedAt: time } = operation;
    if (!isKeyUse(command)) return PASS;
    const attempt = new KeyUseAttempt(this.target, { time, session: this.session, command, key });
    this.#attempt = attempt;
    const refusal = attempt.begin();
    return refusal instanceof Promise ? refusal.then(admission) : admission(refusal);
  }

  finished(operation: Operation, goesOn = false): Buffer | undefined {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    if (goesOn) this.#left = attempt;
    const { outcome, durationMs } = operation;
    const failure = attempt?.finish(outcome, durationMs, goesOn ? 'left' : paceOf(outcome));
    this.onOperation(failure ? { ...operation, outcome: 'refused' } : operation);
    return failure && refusalLine(failure);
  }

  finishedLate(outcome: Outcome): void {
    this.#left?.finishLate(paceOf(outcome));
  }
}

function paceOf(outcome: Outcome): PaceOutcome {
  return outcome === 'ok' || outcome === 'cancelled' ? outcome : 'other';
}

function admission(refusal: BridgeError | undefined): Admission {
  return refusal ? { answer: refusalLine(refusal) } : PASS;
}

function refusalLine(refusal: BridgeError): Buffer {
  return errLine(CODES[refusal.code] ?? GPG_ERROR.LIMIT_REACHED, refusal.message);
}
