import type { BridgeOptions, BridgeSelector } from '../bridge-options.ts';
import type { BridgeFacts } from '../daemon/control.ts';

/** A running bridge. */
export interface BridgeInfo extends BridgeFacts {
  /** Whether it ran already. */
  reused: boolean;
  /** Set when a bridge with other options had to be ended first. */
  restarted: boolean;
}

/** Starts, finds and ends bridges. */
export interface SocketBridgeManager {
  /** Idempotent; returns when the bridge is ready, or throws what went wrong inside it. */
  ensureBridge(target: string, options?: BridgeOptions): Promise<BridgeInfo>;
  /** Whether there was one to end. */
  stopBridge(target: string, options?: BridgeSelector): Promise<boolean>;
  /** How many were ended. */
  stopAll(): Promise<number>;
  isRunning(target: string, options?: BridgeSelector): Promise<boolean>;
}
