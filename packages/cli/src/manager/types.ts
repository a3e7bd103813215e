import type { BridgeOptions, BridgeSelector } from '../bridge-options.ts';

/** A running bridge. */
export interface BridgeInfo {
  /** The target as a person names it. */
  target: string;
  /** The container's full ID, or the canonical target. */
  id: string;
  pid: number;
  /** ISO time at which the bridge was started. */
  started: string;
  runtime: string;
  sockets: { type: string; path: string }[];
  /** What the person should know: an agent that is missing, private keys that are shadowed. */
  warnings: string[];
  /** What a person types to get to where it can be used, if there is such a thing. */
  shell?: string;
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
