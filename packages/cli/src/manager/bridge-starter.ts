import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { SOCKET_TYPES } from '@gpg-bridge/core/socket-type';
import { type BridgeOptions, checkOptions, mergedOptions, optionChanges } from '../bridge-options.ts';
import { askDaemon, type CheckRequest, type DaemonStatus } from '../daemon/control.ts';
import { type Predecessor, stoppedMeanwhile } from '../daemon/handover.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import type { BridgeFiles } from '../daemon/state-dir.ts';
import { StoredGrants } from '../daemon/stored-grants.ts';
import {
  beforeNamed,
  isEmpty,
  type Narrowing,
  narrowing,
  restrictionWords,
  withoutExtensions,
} from '../grants/restrictions.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, leadsElsewhere, type Target } from '../targets/target.ts';
import { infoOf, workingInfo } from './bridge-info.ts';
import { type BridgeLock, lockBridge } from './change-lock.ts';
import { GrantChange } from './grant-change.ts';
import { isUp, isUsable } from './is-usable.ts';
import type { RunningBridges } from './running-bridges.ts';
import { spawnDaemon } from './spawn-daemon.ts';
import { removeLeftovers, stopDaemon } from './stop-daemon.ts';
import type { BridgeInfo, EnsureOptions } from './types.ts';

/** How bridges are started, and who is told about it; everything has a default. */
export interface StartOptions {
  /** The gpg-bridge program that daemons run, where the manager is used by another one. */
  program?: string;
  /** Told what is going on, for a person who waits. */
  progress?: (text: string) => void;
  /** Told what a person has to know before it goes on. */
  notice?: (text: string) => void;
  /** Gives up on a bridge that is being started. */
  signal?: AbortSignal;
  /** Whether the log of a bridge that is started tells every session. */
  verbose?: boolean;
}

/** As long as a daemon itself waits for a slow target. */
const READY_TIMEOUT_MS = 60_000;
/** More than a check takes whose agents do not answer. */
const CHECK_TIMEOUT_MS = 20_000;
/** More than looking up keys takes, with a smart card. */
const NARROW_TIMEOUT_MS = 30_000;
/** A little more than it takes to count as waiting for a person. */
const NOTICE_AFTER_MS = 1_500;

/** Has a bridge run as a person wants it: one that runs already, one in the place of that, or a new one. */
export class BridgeStarter {
  readonly #running: RunningBridges;
  readonly #program: string | undefined;
  readonly #progress: (text: string) => void;
  readonly #notice: (text: string) => void;
  readonly #signal: AbortSignal | undefined;
  readonly #verbose: boolean;

  constructor(running: RunningBridges, options: StartOptions) {
    this.#running = running;
    this.#program = options.program;
    this.#progress = options.progress ?? (() => {});
    this.#notice = options.notice ?? (() => {});
    this.#signal = options.signal;
    this.#verbose = options.verbose ?? false;
  }

  /** Makes sure that a bridge with these options, which are complete, runs; returns when it works. */
  async ensure(
    spec: string | undefined,
    given: BridgeOptions,
    { now = false, keep = false }: Pick<EnsureOptions, 'now' | 'keep'>,
  ): Promise<BridgeInfo> {
    const target = await resolveTarget(spec, given);
    const stored = new StoredGrants(this.#running.directory);
    const first = new GrantChange(stored, target, given);
    await storedBefore(first, () => first.checkTime());
    let change = first;
    const serves = async (status: DaemonStatus) =>
      keep ? status.state !== 'ending' : isUsable(status, change.options);
    const files = this.#running.files(bridgeKey(target));
    // A daemon that does not answer looks at what is stored all the same.
    let running = await storedBefore(first, () => this.#running.findFollowing(target));
    const isChange = running !== undefined;
    const reuse = async (status: DaemonStatus) => {
      // A daemon holds to what is stored: more time is stored before it gets that.
      if (!change.isOfRule) await change.commit();
      return this.#reuse(target, status, given.takeover, change.isOfRule ? undefined : given.until);
    };
    if (running && (await serves(running))) {
      await target.check();
      const reused = await reuse(running);
      if (reused) return reused;
    }
    // Before anything else that takes time: the target, or another change, may hold that off.
    const narrowed = await this.#narrow(target, running, first);
    let lock: BridgeLock | undefined;
    try {
      await target.check();
      ensureStateDirectory(this.#running.directory);
      lock = await lockBridge(files.lock);
      // Somebody else may have started it, or changed what holds, while we waited.
      change = new GrantChange(stored, target, given);
      change.checkTime();
      running = await this.#running.findFollowing(target);
      if (running && !narrowed.changes(running) && (await serves(running))) {
        const started = await reuse(running);
        if (started) return started;
        running = await this.#running.findFollowing(target);
      }
      if (running && running.state !== 'ending') {
        return await this.#replace(target, narrowed.asBefore(running), change, now, lock);
      }
      if (running) await stopDaemon(this.#running.files(running.key));
      this.#progress(`connecting to ${target.name}`);
      removeLeftovers(files);
      return await this.#start(target, files, change, lock);
    } catch (error) {
      // What can't be had is not kept, and what was stored before is again.
      if (first.isWrong(error)) await first.failed(error);
      const isTold = error instanceof BridgeError && error.code === 'BRIDGE_NOT_RUNNING';
      throw narrowed.stays(
        lock?.stopped.aborted && !isTold
          ? stoppedMeanwhile(target.name, isChange || running ? 'changed' : 'started')
          : error,
      );
    } finally {
      lock?.release();
    }
  }

  /** Has a bridge that a rule brought up keep to what the rule takes away by now. */
  async keepToRule(running: DaemonStatus, given: BridgeOptions): Promise<void> {
    const target = await resolveTarget(running.target, { ...running.options, ...given });
    if (bridgeKey(target) !== running.key)
      throw leadsElsewhere(target.name, 'its name leads elsewhere by now');
    const stored = new StoredGrants(this.#running.directory);
    await this.#narrow(target, running, new GrantChange(stored, target, given));
  }

  /**
   * Stores what takes something away from the target, and has the bridge that runs keep to that, and those of the
   * target's other users.
   */
  async #narrow(target: Target, running: DaemonStatus | undefined, change: GrantChange): Promise<Narrowed> {
    const isRunning = running !== undefined && running.state !== 'ending';
    const narrower = isRunning ? narrowing(running.options, this.#changed(target, running, change)) : {};
    const narrowed = new Narrowed(change, running, narrower);
    await change.begin();
    try {
      if (isRunning && !isEmpty(narrower)) await narrowBridge(this.#running.files(running.key), narrower);
    } catch (error) {
      await change.failed(error);
      throw narrowed.stays(error);
    }
    // Each daemon that is asked looks at what is stored; one that does not answer does so before a key is used.
    if (change.isForEveryone) await this.#running.list();
    return narrowed;
  }

  /** The options that a bridge which runs is to have; throws for those that exclude each other. */
  #changed(target: Target, running: DaemonStatus, change: GrantChange): BridgeOptions {
    const isThere = running.key === bridgeKey(target);
    const told = isThere ? running.options : withoutExtensions(running.options);
    const before = beforeNamed(told, change.options);
    const options = mergedOptions(before, change.options);
    checkOptions(options, before);
    return options;
  }

  /** Starts a bridge where none runs. */
  async #start(
    target: Target,
    files: BridgeFiles,
    change: GrantChange,
    lock: BridgeLock,
  ): Promise<BridgeInfo> {
    const status = await this.#whileStored(change, () => this.#spawn(target, files, change.options, lock));
    return infoOf({ ...status, notes: [...status.notes, ...inheritedNote(change)] }, 'new');
  }

  /** Stores a change, which a bridge that is started holds to; if that fails, what it lifts is stored again. */
  async #whileStored<T>(change: GrantChange, start: () => Promise<T>): Promise<T> {
    await change.commit();
    try {
      return await start();
    } catch (error) {
      await change.failed(error);
      throw error;
    }
  }

  async #spawn(
    target: Target,
    files: BridgeFiles,
    options: BridgeOptions,
    { stopped }: BridgeLock,
    predecessor?: Predecessor,
  ): Promise<DaemonStatus> {
    const signal = this.#signal ? AbortSignal.any([this.#signal, stopped]) : stopped;
    signal.throwIfAborted();
    return spawnDaemon(target, files, options, {
      program: this.#program,
      signal,
      verbose: this.#verbose,
      predecessor,
    });
  }

  /** Has a bridge that runs checked and mended, or waits until it is ready; undefined if it ends meanwhile. */
  async #reuse(
    target: Target,
    running: DaemonStatus,
    takeover: boolean | undefined,
    until: string | undefined,
  ): Promise<BridgeInfo | undefined> {
    const { control } = this.#running.files(running.key);
    let status: DaemonStatus | undefined = running;
    if (isUp(running)) {
      const check: CheckRequest = { mend: true, takeover, until };
      status = await askDaemon(control, 'check', CHECK_TIMEOUT_MS, check);
      if (status && isUp(status)) return workingInfo(status);
    }
    if (!status || status.state === 'ending') return undefined;
    this.#progress(`waiting for the bridge to ${target.name}`);
    // One that turns to another container of its name lets go of its first control socket, and takes the target's.
    const there = this.#running.files(bridgeKey(target)).control;
    const ready = (await untilReady(control, target)) ?? (await untilReady(there, target));
    return ready && isUp(ready) ? infoOf(ready, 'running') : undefined;
  }

  /**
   * Gives a bridge that runs other options. What takes something away from the target holds already; a new bridge is
   * started beside the old one and takes its sockets when it works. If that fails, the old one keeps or takes back what it
   * had, and stays as narrow as it has become.
   */
  async #replace(
    target: Target,
    running: DaemonStatus,
    change: GrantChange,
    now: boolean,
    lock: BridgeLock,
  ): Promise<BridgeInfo> {
    const options = this.#changed(target, running, change);
    await this.#narrow(target, running, change); // which may be another one by now
    return this.#whileStored(change, () => this.#succeed(target, running, options, now, lock)).catch(
      (error: unknown) => {
        throw lock.stopped.aborted ? stoppedMeanwhile(target.name) : error;
      },
    );
  }

  /** Starts a bridge in the place of one that runs. */
  async #succeed(
    target: Target,
    running: DaemonStatus,
    options: BridgeOptions,
    now: boolean,
    lock: BridgeLock,
  ): Promise<BridgeInfo> {
    const changes = optionChanges(running.options, options);
    const files = this.#running.files(running.key);
    const itsFiles = this.#running.files(bridgeKey(target));
    const isThere = running.key === bridgeKey(target);
    const keeps = await this.#working(files, options);
    const quiet = await this.#noticeWhoWaits(files, target, now);
    this.#progress(`changing the bridge to ${target.name}`);
    let release = () => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    try {
      const status = await askDaemon(files.control, 'handover', READY_TIMEOUT_MS, undefined, { until });
      if (status?.stopped) throw stoppedMeanwhile(target.name);
      // One of an older version, or whose line was lost meanwhile, can't be succeeded.
      const isLeft = !status || status.state === 'ending';
      // One in another pod of the deployment, or in another home, has no socket where the new one makes its own.
      const isInTheWay = isThere && running.options.home === options.home;
      const sockets = (isInTheWay ? (status?.inPlace ?? []) : []) as Predecessor['sockets'];
      const control = isThere ? {} : { control: files.control };
      const predecessor = isLeft ? undefined : { sockets, keeps, now, ...control };
      if (isLeft) await stopDaemon(files);
      const started = await this.#spawn(target, itsFiles, options, lock, predecessor);
      // With the same options it may have been replaced because of an agent that it did not have.
      const wasMissing = changes.length === 0 && running.missing.includes('ssh-agent');
      const isThereNow = started.sockets.some(({ type }) => type === 'ssh-agent');
      const mended = wasMissing && isThereNow ? ["the host's ssh-agent was missing, and is bridged now"] : [];
      return infoOf({ ...started, mended }, 'changed', changes);
    } finally {
      quiet();
      release();
    }
  }

  /** The agents that can be used through a bridge, and that a person has not excluded: a change keeps them, or fails. */
  async #working(files: BridgeFiles, { gpg, ssh }: BridgeOptions): Promise<Predecessor['keeps']> {
    const check: CheckRequest = { mend: false };
    const status = await askDaemon(files.control, 'check', CHECK_TIMEOUT_MS, check);
    if (!status || !isUp(status)) return [];
    const excluded = { 'gpg-agent': gpg === false, 'ssh-agent': ssh === false };
    return SOCKET_TYPES.filter((type) => status.working.includes(type) && !excluded[type]);
  }

  /** Says for whom a change waits, or whom it cuts off; returns how to say no more. */
  async #noticeWhoWaits(files: BridgeFiles, target: Target, now: boolean): Promise<() => void> {
    const consequence = now
      ? 'is cut off when the new bridge is there'
      : 'would be cut off: answer it, or use --now';
    const say = () => this.#noticeWaiting(files, target, consequence);
    if (await say()) return () => {};
    // What has just begun counts as waiting for a person after a moment.
    const later = setTimeout(() => void say().catch(() => {}), NOTICE_AFTER_MS);
    return () => clearTimeout(later);
  }

  /** Says which operation in a target waits for a person, and what comes of that; false if none does. */
  async #noticeWaiting(files: BridgeFiles, target: Target, consequence: string): Promise<boolean> {
    const waiting = (await askDaemon(files.control, 'status'))?.waiting;
    if (!waiting) return false;
    const key = waiting.key ? ` with key ${waiting.key}` : '';
    const since = `has waited for a person for ${waiting.sinceSeconds} s`;
    this.#notice(`${waiting.command}${key} in ${target.name} ${since} and ${consequence}`);
    return true;
  }
}

/** Has a bridge keep to narrower options from now on; throws if it can't. */
async function narrowBridge({ control }: BridgeFiles, narrower: Narrowing): Promise<void> {
  const status = await askDaemon(control, 'narrow', NARROW_TIMEOUT_MS, narrower);
  // One that has ended meanwhile lets nothing be used.
  if (status?.narrow?.error !== undefined) throw BridgeError.fromJSON(status.narrow.error);
}

/** What was taken away before a change was made. */
class Narrowed {
  readonly #change: GrantChange;
  readonly #running: DaemonStatus | undefined;
  readonly #narrower: Narrowing;

  constructor(change: GrantChange, running: DaemonStatus | undefined, narrower: Narrowing) {
    this.#change = change;
    this.#running = running;
    this.#narrower = narrower;
  }

  /** Whether it is the reason why a bridge that runs is as it is. */
  changes({ pid }: DaemonStatus): boolean {
    return pid === this.#running?.pid && !isEmpty(this.#narrower);
  }

  /** The status of a bridge with the options that it had before. */
  asBefore(running: DaemonStatus): DaemonStatus {
    return this.changes(running) ? { ...running, options: this.#running!.options } : running;
  }

  /** The error of a change that failed, after which all this stays so. */
  stays(error: unknown): unknown {
    const stored = this.#change.keptWords(error);
    const narrower = this.#change.isWrong(error) ? [] : restrictionWords(this.#narrower);
    if (narrower.length + stored.length === 0) return error;
    const { code, what, why, fix } = toBridgeError(error, 'the bridge was not changed');
    const stays =
      narrower.length > 0
        ? `what was narrowed stays so: ${narrower.join(', ')}`
        : `the restrictions that were named are kept: ${stored.join(', ')}`;
    return why.includes(stays)
      ? error
      : new BridgeError(code, { what, why: `${why}; ${stays}`, fix, cause: error });
  }
}

/** Does something first; if that fails, what takes something away is stored all the same. */
async function storedBefore<T>(change: GrantChange, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    await change.begin();
    throw new Narrowed(change, undefined, {}).stays(error);
  }
}

/** Says that restrictions hold which nobody named now. */
function inheritedNote({ inherited }: GrantChange): string[] {
  return inherited.length === 0 ? [] : [`restrictions that were given before hold: ${inherited.join(', ')}`];
}

/** The status of a bridge once it is ready; undefined if it ends meanwhile. One whose target does not come is an error. */
async function untilReady(control: string, target: Target): Promise<DaemonStatus | undefined> {
  try {
    return await askDaemon(control, 'ready', READY_TIMEOUT_MS);
  } catch (error) {
    const status = await askDaemon(control, 'status'); // which rejects for a daemon that really does not answer
    if (status?.state !== 'waiting-for-target') throw error;
    throw new BridgeError('TARGET_NOT_RUNNING', {
      what: `the bridge to ${target.name} waits for its target`,
      why: status.lastError ?? `it has not come back within ${READY_TIMEOUT_MS / 1000} s`,
      fix: 'Start the target again: the bridge attaches to it by itself. See `gpg-bridge status`.',
      cause: error,
    });
  }
}
