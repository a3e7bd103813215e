import { BridgeError } from '@gpg-bridge/core/errors';
import type { ExecStream } from '../engine/engine.ts';

/** What a person may say beside the target's name. */
export interface TargetOptions {
  user?: string | undefined;
  exec?: string | undefined;
  /** Where engines are looked for, if not in this process's own environment. */
  env?: NodeJS.ProcessEnv | undefined;
}

/** A place where code runs, as far as the bridge needs to know it. */
export interface Target {
  readonly kind: string;
  /** The same for every way of naming it: a container's full ID, or the canonical target. */
  readonly id: string;
  /** As a person names it. */
  readonly name: string;
  /** The user whose sockets are made; empty for the target's own. */
  readonly user: string;
  /** Where the ssh socket goes if not into `~/.ssh`. */
  readonly sshDirectory?: string;
  /** What a person types to get a shell there, if there is such a thing. */
  readonly shell?: string;
  /** A command of this machine reaches it, and fails if the target does not exist. */
  readonly reachedByCommand?: true;
  /** Runs a command there, without a terminal. */
  exec(argv: readonly string[]): Promise<ExecStream>;
  /** Rejects unless the target is there and running. */
  check(): Promise<void>;
  /**
   * Calls `gone` as soon as the target is known to have stopped. Kinds without such events never call it: there
   * the end of the command's streams shows it. Returns how to stop watching.
   */
  watch(gone: (why: string) => void): Promise<() => void>;
  /**
   * Resolves when it may be worth trying to attach again, rejects if it never will be. Where that is a matter of
   * time alone, `onPause` is told until when.
   */
  comesBack(attempt: number, signal: AbortSignal, onPause?: (until: Date) => void): Promise<void>;
}

/** Identifies the bridge to a target and user. */
export function bridgeKey(target: Target): string {
  return `${target.kind}\n${target.id}\n${target.user}`;
}

/** The error for words that name no target. */
export function wrongTarget(why: string, fix: string): BridgeError {
  return new BridgeError('USAGE', { what: "can't tell which target is meant", why, fix });
}
