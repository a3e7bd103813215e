import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-attempt';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';
import type { HolderOf } from '@gpg-bridge/core/remote/socket-holder';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import type { Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import type { HostAgents } from './host-agents.ts';
import type { Journal } from './journal.ts';

/** What a bridge joins, and how. */
export interface BridgeParts {
  target: Target;
  /** The launcher for this runtime, if it runs in the target already. */
  launched?: ExecStream | undefined;
  /** The host's agents, which are looked for while the target starts its runtime. */
  agents: Promise<HostAgents> | HostAgents;
  /** Which public keys the target gets; absent if it gets no gpg-agent. */
  keys?: KeyFilter | undefined;
  /** The environment of the host's gpg, if not this process's own. */
  hostEnv?: NodeJS.ProcessEnv | undefined;
  runtime?: Runtime | undefined;
  takeover?: boolean | undefined;
  /** False: nothing is answered ahead of the host's agent. */
  ahead?: boolean | undefined;
  /** Whether the target's git is told who signs. */
  git?: boolean | undefined;
  /** Says whose a socket in the target is, if another bridge's. */
  holderOf?: HolderOf | undefined;
  /** The sockets that an earlier bridge of the same person holds, and which are taken from it. */
  succeeds?: readonly SocketType[] | undefined;
  /** Sockets without which the bridge is of no use. */
  required?: readonly SocketType[] | undefined;
  /** What the target may use keys for, and where that is recorded; everything, and nowhere, if not given. */
  use?: TargetUse | undefined;
  /** When a line that says nothing counts as dead; never, if not given. */
  heartbeat?: HeartbeatTimes | undefined;
  /** Told when the host's keyring has changed. */
  onKeysChange?: (() => Promise<void>) | undefined;
  journal: Journal;
  log: LogCallback;
  /** Where every step of every session is told; absent: nowhere. */
  traceLog?: LogCallback | undefined;
  /** Gives up on a bridge that is not ready yet. */
  signal?: AbortSignal | undefined;
}
