import { type Admission, type GateRules, PASS } from '../assuan/command-gate.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import type { Operation, PendingOperation } from '../assuan/operation.ts';
import { usesPrivateKey } from '../assuan/private-key-commands.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import { toBridgeError } from '../errors.ts';
import { type KeyUseRecord, NO_RECORD, type RecordedUse } from './key-use-record.ts';
import { PromptPace, type Turn } from './prompt-pace.ts';

/** What belongs to a target as a whole, for all its sessions. */
export interface TargetUse {
  pace: PromptPace;
  record: KeyUseRecord;
}

/** For a target whose uses nobody records, as in a demonstration. */
export function unrecordedUse(): TargetUse {
  return { pace: new PromptPace(), record: NO_RECORD };
}

/** Newer agents allow it on the extra socket; its prompt is in the target's words, and the target gets the answer. */
const GET_PASSPHRASE = 'GET_PASSPHRASE';

/**
 * The rules for one session: which commands pass, when a use of a private key may go to the agent, and that it is
 * on record before the agent gets it and before its answer leaves.
 */
export class KeyUseRules implements GateRules {
  #use: { recorded: RecordedUse; turn: Turn } | undefined;
  /** The use whose turn has not come. */
  #waiting: PendingOperation | undefined;

  constructor(
    private readonly target: TargetUse,
    /** Told of every finished command. */
    private readonly onOperation: (operation: Operation) => void,
    /** The client session, for the record. */
    private readonly session: number | string,
  ) {}

  admit(command: PendingOperation): Admission | Promise<Admission> {
    if (command.command === GET_PASSPHRASE) return { answer: errLine(GPG_ERROR.FORBIDDEN, '') };
    if (!usesPrivateKey(command.command)) return PASS;
    const turn = this.target.pace.enter();
    if (!(turn instanceof Promise)) return this.#begin(command, turn);
    this.#waiting = command;
    return turn.then((begun) => {
      if (this.#waiting === command) return this.#begin(command, begun);
      begun.leave('other'); // the client left before its turn
      return PASS;
    });
  }

  finished(operation: Operation): Buffer | undefined {
    const use = this.#use;
    this.#use = this.#waiting = undefined;
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
}

function notRecorded(error: unknown): Buffer {
  return errLine(
    GPG_ERROR.LIMIT_REACHED,
    toBridgeError(error, "the use of the key can't be recorded").message,
  );
}
