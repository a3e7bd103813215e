import { BridgeError } from '@gpg-bridge/core/errors';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { inspectPath } from '@gpg-bridge/core/remote/inspect-path';
import type { OtherForward } from './status.ts';

const LOOK_TIMEOUT_MS = 2_000;

/**
 * The forward of somebody else's (a Dev Container's own, `ssh -R`, a bridge of the command line) that kept a socket
 * from being taken; undefined if something else did, or if it does not answer as an agent.
 */
export async function findForward(error: unknown, path: string): Promise<OtherForward | undefined> {
  if (!(error instanceof BridgeError) || error.code !== 'SOCKET_HELD_BY_FORWARD') return undefined;
  const options = { path, type: 'gpg-agent', timeoutMs: LOOK_TIMEOUT_MS } as const;
  // If it can't be looked at, what kept the socket from being taken is told as the error it was.
  const finding = await inspectPath(new DirectOperations(), options).catch(() => undefined);
  if (finding?.found !== 'forward' || !finding.isAgent) return undefined;
  const [owner] = finding.owners;
  return { program: owner?.program, pid: owner?.pid };
}
