import type { Socket } from 'node:net';
import { DirectOperations } from './direct-operations.ts';
import { type KeepOptions, type KeptPath, keepPath } from './keep-path.ts';

/** Where to listen on this machine, and what to do with what is there. */
export interface ListenOptions extends KeepOptions {
  /** Called for every client; the socket is the callee's from then on, its errors too. */
  onConnection(socket: Socket): void;
  /** As for net.Server: whether a client that has ended its side still gets answers. */
  allowHalfOpen?: boolean | undefined;
}

/**
 * Listens on a Unix socket of the target that this process runs in: directory 0700, socket 0600, whatever is
 * there dealt with by the rules of `claimPath`, also when something replaces the socket later.
 */
export function listenInTarget(options: ListenOptions): Promise<KeptPath> {
  const { onConnection, log, allowHalfOpen } = options;
  return keepPath(new DirectOperations({ onConnection, log, allowHalfOpen }), options);
}
