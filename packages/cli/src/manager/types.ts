import type { BridgeOptions, BridgeSelector, OptionChange } from '../bridge-options.ts';
import type { BridgeFacts } from '../daemon/control.ts';
import type { GrantDocument } from '../grants/grant-words.ts';

/** A running bridge. */
export interface BridgeInfo extends BridgeFacts {
  /** The target's user; empty for the target's own. */
  user: string;
  /** `new`: started now. `running`: it ran already, and works. `changed`: it ran with other options before. */
  result: 'new' | 'running' | 'changed';
  /** What keeps clients from one of its sockets. */
  problems: string[];
  /** What was changed. */
  changes: OptionChange[];
  /** What did not work, and does again. */
  mended: string[];
  /** What the target may do with the host's keys. */
  grant: GrantDocument;
  /** The same in one sentence. */
  grantText: string;
  /** What programs in the target need in their environment to use it. */
  variables: Record<string, string>;
}

/** What is said about a bridge, and how much patience there is for the one that it replaces. */
export interface EnsureOptions extends BridgeOptions {
  /** Cuts off what is in flight when a running bridge gets other options, instead of waiting for it. */
  now?: boolean;
  /** Leaves a bridge that runs as it is, whatever its options are; it is still checked and mended. */
  keep?: boolean;
  /** Takes an SSH_AUTH_SOCK that nobody listens at for none: who runs a command asks for no other agent with it. */
  ignoresDeadAgent?: boolean;
  /** The daemons were asked for this bridge already, and one of them did not answer in time. */
  isAsked?: boolean | undefined;
}

/** Starts, finds and ends bridges. */
export interface SocketBridgeManager {
  /** Idempotent; returns when the bridge works, or throws what went wrong inside it. */
  ensureBridge(target: string, options?: EnsureOptions): Promise<BridgeInfo>;
  /** Whether there was one to end. */
  stopBridge(target: string, options?: BridgeSelector): Promise<boolean>;
  /** How many were ended. */
  stopAll(): Promise<number>;
  isRunning(target: string, options?: BridgeSelector): Promise<boolean>;
}
