import { BridgeError } from '@gpg-bridge/core/errors';
import type { OptionChange } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { targetVariables } from '../daemon/target-variables.ts';
import { grantOf, grantSentence } from '../grants/grant-words.ts';
import { operandWords } from '../targets/operand-words.ts';
import type { BridgeInfo } from './types.ts';

/** What is told of a bridge that works, from its daemon's status. */
export function infoOf(
  status: DaemonStatus,
  result: BridgeInfo['result'],
  changes: OptionChange[] = [],
): BridgeInfo {
  const { target, user, id, pid, started, runtime, sockets, warnings, offers, notes, mended } = status;
  const { shell, where, problems } = status;
  const facts = { target, user, id, pid, started, runtime, sockets, warnings, offers, notes, problems };
  const known = { ...(shell ? { shell } : {}), ...(where ? { where } : {}) };
  const grant = { grant: grantOf(status), grantText: grantSentence(status) };
  return { ...facts, ...known, result, changes, mended, ...grant, variables: targetVariables(status) };
}

/** A bridge that ran already; an error if nothing of it works. */
export function workingInfo(status: DaemonStatus): BridgeInfo {
  const { target, options, problems, working } = status;
  if (problems.length > 0 && working.length === 0) {
    throw new BridgeError('BRIDGE_BROKEN', {
      what: `the bridge to ${target} does not work`,
      why: problems.join('; '),
      fix: `Mend that and try again, or end it with \`gpg-bridge down ${operandWords(target, options)}\` and start anew.`,
    });
  }
  return infoOf(status, 'running');
}
