import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { ImportResult } from '@gpg-bridge/core/remote/keyring';
import {
  type BridgeOptions,
  type BridgeSelector,
  checkKeyChoice,
  checkOptions,
  withDeadline,
  withHostAgents,
} from '../bridge-options.ts';
import { askDaemon, type DaemonStatus } from '../daemon/control.ts';
import { hasName } from '../daemon/match-target.ts';
import { type BridgeFiles, stateDirectory } from '../daemon/state-dir.ts';
import { grantUsers, StoredGrants } from '../daemon/stored-grants.ts';
import { heldFor, namesRestriction, type Restrictions } from '../grants/restrictions.ts';
import { workingInfo } from './bridge-info.ts';
import type { StartOptions } from './bridge-starter.ts';
import { confirmBridge } from './confirm-bridge.ts';
import { isListening } from './is-usable.ts';
import { locateKnown, resolveKnown } from './look-up.ts';
import { RunningBridges } from './running-bridges.ts';
import type { StopResult } from './stop-daemon.ts';
import type { BridgeInfo, EnsureOptions, SocketBridgeManager } from './types.ts';

/** How a manager is set up; everything has a default. */
export interface ManagerOptions extends StartOptions {
  stateDirectory?: string;
}

/** Which bridge is ended, and how. */
export type StopOptions = BridgeSelector & { force?: boolean };

/** What became of all bridges. */
export interface StoppedBridges {
  ended: number;
  cleared: number;
  /** Those that another process is starting or changing, and has not given up yet. */
  busy: number;
  failures: BridgeError[];
}

/** Starts, finds and ends bridges, each in a daemon of its own that outlives this process. */
export class Manager implements SocketBridgeManager {
  readonly #running: RunningBridges;
  readonly #options: StartOptions;

  constructor(options: ManagerOptions = {}) {
    this.#running = new RunningBridges(options.stateDirectory ?? stateDirectory());
    this.#options = options;
  }

  /** Makes sure that a bridge with these options runs; returns when it works. */
  async ensureBridge(spec: string | undefined, options: EnsureOptions = {}): Promise<BridgeInfo> {
    const { now: _now, keep, ignoresDeadAgent, isAsked, ...said } = options;
    checkKeyChoice(said);
    checkOptions(said);
    const { SSH_AUTH_SOCK: agent, ...env } = process.env;
    const isLeftOut = !agent || (ignoresDeadAgent && !(await isListening(agent)));
    const given = withDeadline(withHostAgents(said, isLeftOut ? env : process.env));
    const isLong = keep || isAsked || namesRestriction(said);
    const confirmed = isLong ? undefined : await confirmBridge(this.#running, spec, given);
    if (confirmed) return workingInfo(confirmed);
    // Loaded late: an `up` that finds its bridge running has to be quick, and does not need it.
    const { BridgeStarter } = await import('./bridge-starter.ts');
    return new BridgeStarter(this.#running, this.#options).ensure(spec, given, options);
  }

  /**
   * Ends the bridge to a target, and clears what a daemon left that was killed; false if no bridge ran. With `force`
   * it also ends one that does not answer.
   */
  async stopBridge(spec: string | undefined, options: StopOptions = {}): Promise<boolean> {
    return (await this.stop(spec, options)) === 'ended';
  }

  /** The same, and tells a bridge that was killed from one that never was. */
  async stop(spec: string | undefined, { force, ...selector }: StopOptions = {}): Promise<StopResult> {
    const end = await stopping(force);
    const key = force
      ? await this.keyOf(spec, selector)
      : ((await this.find(spec, selector))?.key ?? (await this.#running.targetKey(spec, selector)));
    return key === undefined ? this.#clearNamed(spec, selector) : end(this.#running.files(key));
  }

  /** Clears what daemons left that were killed, where the target has gone as well and only its name is known. */
  async #clearNamed(spec: string | undefined, selector: BridgeSelector): Promise<StopResult> {
    const named = await locateKnown(spec, selector);
    if (!named) return 'none';
    const { clearDead } = await import('./stop-daemon.ts');
    return clearDead(this.#running.directory, (target) => hasName(target, named));
  }

  /** Ends every bridge of this user; returns how many. All are asked before the first failure is thrown. */
  async stopAll(): Promise<number> {
    const { ended, failures } = await this.stopEach();
    if (failures[0]) throw failures[0];
    return ended;
  }

  /** Ends every bridge of this user that can be ended; returns how many, and what became of the others. */
  async stopEach({ force = false } = {}): Promise<StoppedBridges> {
    const end = await stopping(force);
    const stops = await Promise.allSettled(this.#running.allFiles().map((files) => end(files)));
    const count = (result: StopResult) =>
      stops.filter((stop) => stop.status === 'fulfilled' && stop.value === result).length;
    return {
      ended: count('ended'),
      cleared: count('cleared'),
      busy: count('busy'),
      failures: stops.flatMap((stop) =>
        stop.status === 'rejected' ? [toBridgeError(stop.reason, "can't end a bridge")] : [],
      ),
    };
  }

  /** Has the bridges that a rule brought up keep to what was added to it; returns how many do, and why others fail. */
  async keepToRule(rule: string, options: BridgeOptions): Promise<{ held: number; failures: BridgeError[] }> {
    const running = (await this.list()).filter((status) => status.options.rule === rule);
    const { BridgeStarter } = await import('./bridge-starter.ts');
    const starter = new BridgeStarter(this.#running, this.#options);
    const failures: BridgeError[] = [];
    for (const status of running) {
      await starter.keepToRule(status, withDeadline({ ...options, rule })).catch((cause: unknown) => {
        failures.push(notHeld(status.target, rule, cause));
      });
    }
    return { held: running.length - failures.length, failures };
  }

  /** Tells every daemon something; returns the statuses of those that answer. */
  async tellAll(news: 'pause'): Promise<DaemonStatus[]> {
    return this.#running.tellAll(news);
  }

  /** Whether there is a bridge to a target. */
  async isRunning(spec: string | undefined, selector: BridgeSelector = {}): Promise<boolean> {
    return (await this.find(spec, selector)) !== undefined;
  }

  /** Every running bridge's status, by target and user. */
  async list(): Promise<DaemonStatus[]> {
    return this.#running.list();
  }

  /**
   * The same after a look at every socket in the targets, with the daemons that do not answer: of those only the
   * process and the target are known.
   */
  async listChecked(): Promise<DaemonStatus[]> {
    return this.#running.listChecked();
  }

  /** The bridge to a target, after a look at its sockets; one that does not answer as in `listChecked`. */
  async findChecked(
    spec: string | undefined,
    selector: BridgeSelector = {},
  ): Promise<DaemonStatus | undefined> {
    return this.#running.findChecked(spec, selector);
  }

  /**
   * The running bridge to a target. Where that can't be looked up, because the engine has stopped, the container
   * was removed or the cluster does not answer, a bridge is found by the name it has in that same place.
   */
  async find(spec: string | undefined, selector: BridgeSelector = {}): Promise<DaemonStatus | undefined> {
    return this.#running.find(spec, selector);
  }

  /** The running bridges to a target, whoever their user is. */
  async findAll(spec: string | undefined, selector: BridgeSelector = {}): Promise<DaemonStatus[]> {
    return this.#running.findAll(spec, selector);
  }

  /** The key that the files of a target's bridge are named after, whether it runs or not. */
  async keyOf(spec: string | undefined, selector: BridgeSelector = {}): Promise<string | undefined> {
    return this.#running.keyOf(spec, selector);
  }

  /** Whether restrictions are stored for any target. */
  hasRestrictions(): boolean {
    return new StoredGrants(this.#running.directory).hasAny;
  }

  /** Whether restrictions are stored for a target; `user`: for the user of the selector alone. */
  async isRestricted(
    spec: string | undefined,
    selector: BridgeSelector = {},
  ): Promise<'user' | 'everyone' | undefined> {
    const stored = new StoredGrants(this.#running.directory);
    const target = await resolveKnown(spec, selector);
    const named = target ?? (await locateKnown(spec, selector));
    if (!named || !stored.has(named)) return undefined;
    const isOwn = target && selector.user !== undefined && stored.hasUser(target, grantUsers(target));
    return isOwn ? 'user' : 'everyone';
  }

  /** What a target with a user may do once its bridge is up, as far as it is stored; undefined if nothing is. */
  async restrictionsOf(
    spec: string | undefined,
    selector: BridgeSelector = {},
  ): Promise<Restrictions | undefined> {
    const target = await resolveKnown(spec, selector);
    const grants = target && new StoredGrants(this.#running.directory).read(target);
    return grants?.length ? heldFor(grants, grantUsers(target!)) : undefined;
  }

  /** Drops the restrictions of a target, or with a user those of that user alone; false if there were none. */
  async forget(spec: string | undefined, selector: BridgeSelector = {}): Promise<boolean> {
    const stored = new StoredGrants(this.#running.directory);
    const target = await resolveKnown(spec, selector);
    if (target && selector.user !== undefined) return stored.forgetUser(target, grantUsers(target));
    const named = target ?? (await locateKnown(spec, selector));
    return named !== undefined && stored.forget(named);
  }

  /** Gives a target the host's public keys and their trust again; undefined if it has no bridge. */
  async syncKeys(spec: string | undefined, selector: BridgeSelector = {}): Promise<ImportResult | undefined> {
    const found = await this.find(spec, selector);
    if (!found) return undefined;
    const { control } = this.#running.files(found.key);
    const answer = (await askDaemon(control, 'sync', Number.POSITIVE_INFINITY))?.sync;
    if (answer && 'synced' in answer) return answer.synced;
    if (answer) throw BridgeError.fromJSON(answer.error);
    throw new BridgeError('DAEMON_FAILED', {
      what: `${found.target} can't be given public keys`,
      why: 'its bridge ended meanwhile, or is of an older version',
      fix: 'Run `gpg-bridge up` for it, which brings them.',
    });
  }
}

/** What ends a daemon. */
async function stopping(force = false): Promise<(files: BridgeFiles) => Promise<StopResult>> {
  const { endBridge, forceDaemon } = await import('./stop-daemon.ts');
  return force ? forceDaemon : endBridge;
}

function notHeld(target: string, rule: string, cause: unknown): BridgeError {
  const { code, what, why, fix } = toBridgeError(cause, 'it failed');
  const named = { what: `the bridge to ${target} does not keep to the rule ${rule}`, why: `${what}: ${why}` };
  return new BridgeError(code, { ...named, fix, cause });
}
