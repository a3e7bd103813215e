/** Which runtimes the socket server can run on in a target. */
export type RuntimeName = 'node' | 'perl' | 'python';

/** What is bridged, and how; everything has a default. */
export interface BridgeOptions {
  /** true: must be had. false: left out. Absent: bridged if the host has it. */
  gpg?: boolean;
  ssh?: boolean;
  /** The target's user. */
  user?: string;
  /** `pairs` unless said: the keys whose secret half is on the host. */
  keys?: 'pairs' | 'all' | 'none' | string[];
  /** Narrows the SSH keys that are offered, by fingerprint or comment. */
  sshKeys?: string[];
  sshFromGpg?: boolean;
  runtime?: RuntimeName;
  takeover?: boolean;
  restart?: boolean;
  /** A command prefix that reaches the target, in place of a target's name. */
  exec?: string;
}

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
  stopBridge(target: string, options?: Pick<BridgeOptions, 'user' | 'exec'>): Promise<boolean>;
  /** How many were ended. */
  stopAll(): Promise<number>;
  isRunning(target: string, options?: Pick<BridgeOptions, 'user' | 'exec'>): Promise<boolean>;
}
