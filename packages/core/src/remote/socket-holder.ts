import { BridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import type { TargetOperations } from './operations.ts';

/** Says whose a socket is, if it is known here: another bridge's, in words. */
export type HolderOf = (socket: SocketIdentity) => Promise<string | undefined>;

/** The other bridge whose a socket in a target is, in words: two targets may have one home. */
export async function bridgeBehind(
  { facts: { boot } }: Pick<TargetOperations, 'facts'>,
  identity: SocketIdentity,
  holderOf: HolderOf | undefined,
): Promise<string | undefined> {
  return holderOf?.({ ...identity, ...(boot === undefined ? {} : { boot }) });
}

/** The error for a path that another bridge serves. */
export function heldByBridge(path: string, bridge: string): BridgeError {
  return new BridgeError('SOCKET_HELD_BY_FORWARD', {
    what: `can't listen on ${path}`,
    why: `${bridge} listens there, so both have the same home and signing may already work here`,
    fix: 'Use that one, end it first, or start with --takeover to take its place.',
  });
}
