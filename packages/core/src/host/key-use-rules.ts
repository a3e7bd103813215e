import { type Admission, type GateRules, PASS } from '../assuan/command-gate.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import type { Operation, PendingOperation } from '../assuan/operation.ts';
import { usesPrivateKey } from '../assuan/private-key-commands.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import { toBridgeError } from '../errors.ts';
import { type KeyUseRecord, NO_RECORD, type RecordedUse } from './key-use-record.ts';
import { PromptPace, type Turn } from './prompt-pace.ts';

/** What a target may do with the host's gpg-agent beyond what the agent's restricted socket allows. */
export interface KeyUseLimits {
  /** Keygrips of the only keys that it may use; all if not given. */
  keygrips?: ReadonlySet<string> | undefined;
  /** Nothing is decrypted. */
  noDecrypt?: boolean | undefined;
  /** GET_PASSPHRASE, whose prompt is in the target's words and whose answer the target gets, may pass. */
  allowPassphrase?: boolean | undefined;
}

/** What belongs to a target as a whole, for all its sessions. */
export interface TargetUse {
  limits: KeyUseLimits;
  pace: PromptPace;
  record: KeyUseRecord;
}

/** For a target whose uses nobody records, as in a demonstration. */
export function unrecordedUse(): TargetUse {
  return { limits: {}, pace: new PromptPace(), record: NO_RECORD };
}

const GET_PASSPHRASE = 'GET_PASSPHRASE';
const HAVEKEY = /^HAVEKEY((?: +[0-9A-Fa-f]{40})+) *$/i;

/**
 * The rules for one session: which commands pass, when a use of a private key may go to the agent, and that it is
 * on record before the agent gets it and before its answer leaves.
 */
export class KeyUseRules implements GateRules {
  #use: { recorded: RecordedUse; turn: Turn } | undefined;

  constructor(
    private readonly target: TargetUse,
    /** Told of every finished command. */
    private readonly onOperation: (operation: Operation) => void,
    /** The client session, for the record. */
    private readonly session: number | string,
  ) {}

  admit(command: PendingOperation, line: Buffer): Admission | Promise<Admission> {
    const { limits } = this.target;
    const word = command.command;
    if (word === 'HAVEKEY' && limits.keygrips)
      return this.#narrowed(line.toString('latin1'), limits.keygrips);
    const asksPerson = usesPrivateKey(word) || word === GET_PASSPHRASE;
    if (!asksPerson) return PASS;
    if (word === GET_PASSPHRASE && !limits.allowPassphrase) return refusal(GPG_ERROR.FORBIDDEN, '');
    if (word === 'PKDECRYPT' && limits.noDecrypt) {
      return refusal(GPG_ERROR.FORBIDDEN, 'this bridge decrypts nothing');
    }
    if (usesPrivateKey(word) && limits.keygrips && !(command.key && limits.keygrips.has(command.key))) {
      return refusal(GPG_ERROR.NO_SECRET_KEY, 'this bridge does not offer that key');
    }
    const turn = this.target.pace.enter();
    return turn instanceof Promise
      ? turn.then((begun) => this.#begin(command, begun))
      : this.#begin(command, turn);
  }

  finished(operation: Operation): Buffer | undefined {
    const use = this.#use;
    this.#use = undefined;
    use?.turn.leave(
      operation.outcome === 'ok' ? 'ok' : operation.outcome === 'cancelled' ? 'cancelled' : 'other',
    );
    try {
      use?.recorded.finish(operation.outcome, operation.durationMs);
    } catch (error) {
      return notRecorded(error);
    } finally {
      this.onOperation(operation);
    }
    return undefined;
  }

  /** An operation that can't be recorded is not carried out. */
  #begin({ command, key, startedAt }: PendingOperation, turn: Turn): Admission {
    try {
      const recorded = this.target.record.begin({ time: startedAt, session: this.session, command, key });
      this.#use = { recorded, turn };
      return PASS;
    } catch (error) {
      turn.leave('other');
      return { answer: notRecorded(error) };
    }
  }

  #narrowed(line: string, offered: ReadonlySet<string>): Admission {
    const asked = HAVEKEY.exec(line)?.[1]?.trim().toUpperCase().split(/ +/);
    if (!asked) return refusal(GPG_ERROR.FORBIDDEN, 'this bridge offers chosen keys only');
    const allowed = asked.filter((keygrip) => offered.has(keygrip));
    if (allowed.length === 0) return refusal(GPG_ERROR.NO_SECRET_KEY, 'this bridge does not offer that key');
    return { passAs: Buffer.from(`HAVEKEY ${allowed.join(' ')}\n`) };
  }
}

function refusal(code: number, reason: string): Admission {
  return { answer: errLine(code, reason) };
}

function notRecorded(error: unknown): Buffer {
  return errLine(
    GPG_ERROR.LIMIT_REACHED,
    toBridgeError(error, "the use of the key can't be recorded").message,
  );
}
