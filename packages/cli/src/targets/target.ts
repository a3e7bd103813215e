import { BridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { ExecStream, ExitInfo } from '../engine/engine.ts';
import type { TerminalGate } from '../engine/terminal-gate.ts';

/** What a person may say beside the target's name. */
export interface TargetOptions {
  user?: string | undefined;
  exec?: string | undefined;
  /** A home that the user gets in the target. */
  home?: string | undefined;
  /** Whether a container is followed by its name; unless said, if that is what it is named by here. */
  byName?: boolean | undefined;
  /** Where engines, clusters and configurations are looked for, if not in this process's own environment. */
  env?: NodeJS.ProcessEnv | undefined;
}

/** A place where code runs, as far as the bridge needs to know it. */
export interface Target {
  readonly kind: string;
  /** The same for every way of naming it: a container's full ID, or the canonical target. */
  readonly id: string;
  /** Everything that decides where `id` leads, where `id` alone does not: a cluster, a configuration. */
  readonly canonical?: string;
  /** As a person names it. */
  readonly name: string;
  /** What a daemon resolves to the same target, if it is not the kind and `id`. */
  readonly spec?: string;
  /** Where `name` is looked up: an engine's address, a cluster. */
  readonly place?: string;
  /** Where it is, in words, if the name alone does not say it. */
  readonly where?: string;
  /** The words that lead there, where a configuration or an environment decides to what they lead. */
  readonly typed?: string;
  /** The user whose sockets are made, as what it resolves to; empty for the target's own. */
  readonly user: string;
  /** That user as a person or the container's settings name it, where the target decides to what that resolves. */
  readonly userWord?: string;
  /** It is followed by its name, to whatever container has that, or whatever pod a deployment. */
  readonly byName?: boolean;
  /** Where the ssh socket goes if not into `~/.ssh`. */
  readonly sshDirectory?: string;
  /** What a person types to get a shell there, if there is such a thing. */
  readonly shell?: string;
  /** A command of this machine reaches it, and fails if the target does not exist. */
  readonly reachedByCommand?: true;
  /** Runs a command there, without a terminal. */
  exec(argv: readonly string[]): Promise<ExecStream>;
  /**
   * Runs a command there on this process's own streams, with a terminal if there is one here; resolves to how it
   * ended. `gate` keeps it from reading the terminal here.
   */
  attach(argv: readonly string[], terminal: boolean, gate?: TerminalGate): Promise<ExitInfo>;
  /** Rejects unless the target is there and running. */
  check(): Promise<void>;
  /**
   * Calls `gone` as soon as the target is known to have stopped. Kinds without such events never call it: there
   * the end of the command's streams shows it. Returns how to stop watching.
   */
  watch(gone: (why: string) => void, log: LogCallback): Promise<() => void>;
  /**
   * What to attach to again: undefined for this very target, another one if what the person named leads there by
   * now. Rejects if it would lead to another place than the person meant.
   */
  latest?(): Promise<Target | undefined>;
  /**
   * Resolves when it may be worth trying to attach again, rejects if it never will be. Where that is a matter of
   * time alone, `onPause` is told until when.
   */
  comesBack(attempt: number, signal: AbortSignal, onPause?: (until: Date) => void): Promise<void>;
}

/** Identifies the bridge to a target and user. */
export function bridgeKey(target: Target): string {
  return `${target.kind}\n${target.canonical ?? target.id}\n${target.user}`;
}

/** The error for a name that leads to another place than it did when the bridge was started. */
export function leadsElsewhere(name: string, why: string): BridgeError {
  return new BridgeError('TARGET_NOT_FOUND', {
    what: `${name} is not attached to again`,
    why,
    fix: 'If the new place is what you mean, run `gpg-bridge down` and `gpg-bridge up` for it.',
  });
}

/** The error for words that name no target. */
export function wrongTarget(why: string, fix: string): BridgeError {
  return new BridgeError('USAGE', { what: "can't tell which target is meant", why, fix });
}

/** Refuses --user where it has no meaning. */
export function refuseUser(kind: string, user: string | undefined, fix = 'Leave --user out.'): void {
  if (user !== undefined) throw wrongTarget(`--user has no meaning for a ${kind} target`, fix);
}
