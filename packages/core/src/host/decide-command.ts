import { isAllowedCommand } from '../assuan/allowed-commands.ts';
import type { Admission } from '../assuan/command-gate.ts';
import { GPG_ERROR } from '../assuan/error-codes.ts';
import type { PendingOperation } from '../assuan/operation.ts';
import { errLine } from '../assuan/unavailable-agent.ts';
import { decideByGrant, type GpgGrant } from './gpg-grant.ts';

/** What gpg-agent itself answers to what it does not allow on its restricted socket. */
export const FORBIDDEN: Buffer = errLine(GPG_ERROR.FORBIDDEN, '');

/** For a target about which nothing was said. */
const NOTHING_SAID: GpgGrant = {};

/** What becomes of a command line that must not reach the agent as it is; undefined for all others. */
export function decideCommand(
  operation: PendingOperation,
  line: Buffer,
  grant: GpgGrant = NOTHING_SAID,
): Admission | undefined {
  if (!isAllowedCommand(line)) return { answer: FORBIDDEN, why: 'it is not allowed over a bridge' };
  return decideByGrant(operation, line, grant);
}
