import { existsSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { ImportResult } from '@gpg-bridge/core/remote/keyring';
import {
  type BridgeOptions,
  type BridgeSelector,
  checkOptions,
  mergedOptions,
  type OptionChange,
  optionChanges,
  withDeadline,
  withHostAgents,
} from '../bridge-options.ts';
import { type Claim, claim, removeIfDead, untilReleased } from '../daemon/claim.ts';
import {
  askDaemon,
  type CheckRequest,
  type ControlRequest,
  type DaemonStatus,
  type NamedTarget,
} from '../daemon/control.ts';
import type { Predecessor } from '../daemon/handover.ts';
import { hasName, matchesTarget } from '../daemon/match-target.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  checkStateDirectory,
  controlSockets,
  ensureStateDirectory,
  filesBeside,
  stateDirectory,
} from '../daemon/state-dir.ts';
import { targetVariables } from '../daemon/target-variables.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { isSameTarget, locateKnown, resolveKnown } from './look-up.ts';
import type { BridgeInfo, EnsureOptions, SocketBridgeManager } from './types.ts';

/** How a manager is set up; everything has a default. */
export interface ManagerOptions {
  stateDirectory?: string;
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

/** Which bridge is ended, and how. */
export type StopOptions = BridgeSelector & { force?: boolean };

/** What became of a bridge: it was ended, it had been killed and what it left was cleared, or there was none. */
export type StopResult = 'ended' | 'cleared' | 'none';

/** What became of all bridges. */
export interface StoppedBridges {
  ended: number;
  cleared: number;
  failures: BridgeError[];
}

/** The variables that decide in which engine a name is looked up; an unset one counts as empty. */
const ENGINE_VARIABLES = [
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
  'DOCKER_TLS',
  'DOCKER_TLS_VERIFY',
  'DOCKER_CERT_PATH',
  'CONTAINER_HOST',
  'CONTAINER_CONNECTION',
  'XDG_RUNTIME_DIR',
  'HOME',
  'PATH',
] as const;
/** Targets that depend on nothing else: containers, and local homes by an absolute path. */
const CONFIRMED_KINDS = /^(?:local:\/|docker:|podman:|(?![a-z0-9]+:))/;
/** After this the target is resolved here instead, however long a slow engine takes. */
const CONFIRM_TIMEOUT_MS = 2_000;
/** As long as a daemon itself waits for a slow target. */
const READY_TIMEOUT_MS = 60_000;
/** More than a check takes whose agents do not answer. */
const CHECK_TIMEOUT_MS = 20_000;
const LIST_TIMEOUT_MS = 5_000;
/** A little more than it takes to count as waiting for a person. */
const NOTICE_AFTER_MS = 1_500;
/** More than the three seconds that a daemon gives its target to remove the sockets. */
const STOP_TIMEOUT_MS = 15_000;

/** Starts, finds and ends bridges, each in a daemon of its own that outlives this process. */
export class Manager implements SocketBridgeManager {
  readonly #stateDirectory: string;
  readonly #program: string | undefined;
  readonly #progress: (text: string) => void;
  readonly #notice: (text: string) => void;
  readonly #signal: AbortSignal | undefined;
  readonly #verbose: boolean;

  constructor(options: ManagerOptions = {}) {
    this.#stateDirectory = options.stateDirectory ?? stateDirectory();
    this.#program = options.program;
    this.#progress = options.progress ?? (() => {});
    this.#notice = options.notice ?? (() => {});
    this.#signal = options.signal;
    this.#verbose = options.verbose ?? false;
  }

  /** Where the bridges' files are, looked at before anything in it is believed. */
  get #directory(): string {
    checkStateDirectory(this.#stateDirectory);
    return this.#stateDirectory;
  }

  /** Makes sure that a bridge with these options runs; returns when it works. */
  async ensureBridge(
    spec: string | undefined,
    { now, keep, ...said }: EnsureOptions = {},
  ): Promise<BridgeInfo> {
    checkOptions(said);
    const given = withDeadline(withHostAgents(said, process.env));
    const serves = async (status: DaemonStatus) =>
      keep ? status.state !== 'ending' : isUsable(status, given);
    const confirmed = keep ? undefined : await this.#confirmed(spec, given);
    if (confirmed) return workingInfo(confirmed);
    const target = await resolveTarget(spec, given);
    await target.check();
    const files = bridgeFiles(this.#directory, bridgeKey(target));
    let running = await this.#running(files, target);
    if (running && (await serves(running))) return this.#reuse(target, running, given);
    ensureStateDirectory(this.#directory);
    const lock = await this.#lock(files.lock);
    try {
      // Somebody else may have started it while we waited.
      running = await this.#running(files, target);
      if (running && (await serves(running))) return await this.#reuse(target, running, given);
      if (running && running.state !== 'ending') {
        return await this.#replace(target, running, mergedOptions(running.options, given), now ?? false);
      }
      if (running) await stopDaemon(bridgeFiles(this.#directory, running.key));
      this.#progress(`connecting to ${target.name}`);
      removeLeftovers(files);
      return infoOf(await this.#spawn(target, files, given), 'new');
    } finally {
      lock.release();
    }
  }

  async #spawn(
    target: Target,
    files: BridgeFiles,
    options: BridgeOptions,
    predecessor?: Predecessor,
  ): Promise<DaemonStatus> {
    // Loaded late: an `up` that finds its bridge running has to be quick, and does not need it.
    const { spawnDaemon } = await import('./spawn-daemon.ts');
    return spawnDaemon(target, files, options, {
      program: this.#program,
      signal: this.#signal,
      verbose: this.#verbose,
      predecessor,
    });
  }

  /**
   * Gives a bridge that runs other options: a new one is started beside it and takes its sockets when it works. If
   * that fails, the old one keeps or takes back what it had.
   */
  async #replace(
    target: Target,
    running: DaemonStatus,
    options: BridgeOptions,
    now: boolean,
  ): Promise<BridgeInfo> {
    checkOptions(options);
    const changes = optionChanges(running.options, options);
    const files = bridgeFiles(this.#directory, running.key);
    const itsFiles = bridgeFiles(this.#directory, bridgeKey(target));
    const isThere = running.key === bridgeKey(target);
    if (now) await this.#noticeWaiting(files, target, 'is cut off');
    else await this.#untilIdle(files, target);
    this.#progress(`changing the bridge to ${target.name}`);
    let release = () => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    try {
      const status = await askDaemon(files.control, 'handover', undefined, undefined, { until });
      // One in another pod of the deployment, or in another home, has no socket where the new one makes its own.
      const isInTheWay = isThere && running.options.home === options.home;
      const sockets = (isInTheWay ? (status?.inPlace ?? []) : []) as Predecessor['sockets'];
      const predecessor = status && { sockets, now, ...(isThere ? {} : { control: files.control }) };
      if (!status) await stopDaemon(files); // one of an older version, which can't be succeeded
      const started = await this.#spawn(target, itsFiles, options, predecessor);
      // With the same options it was replaced because of an agent that it did not have.
      const mended = changes.length > 0 ? [] : ["the host's ssh-agent was missing, and is bridged now"];
      return infoOf({ ...started, mended }, 'changed', changes);
    } finally {
      release();
    }
  }

  /** Waits until nobody is cut off by the end of a bridge, and says for whom. */
  async #untilIdle(files: BridgeFiles, target: Target): Promise<void> {
    const say = () => this.#noticeWaiting(files, target, 'would be cut off: answer it, or use --now');
    await say();
    // What has just begun counts as waiting for a person after a moment.
    const later = setTimeout(() => void say().catch(() => {}), NOTICE_AFTER_MS);
    try {
      await askDaemon(files.control, 'idle', Number.POSITIVE_INFINITY, undefined, { signal: this.#signal });
    } finally {
      clearTimeout(later);
    }
  }

  /** Says which operation in a target waits for a person, and what comes of that. */
  async #noticeWaiting(files: BridgeFiles, target: Target, consequence: string): Promise<void> {
    const waiting = (await askDaemon(files.control, 'status'))?.waiting;
    if (!waiting) return;
    const key = waiting.key ? ` with key ${waiting.key}` : '';
    const since = `has waited for a person for ${waiting.sinceSeconds} s`;
    this.#notice(`${waiting.command}${key} in ${target.name} ${since} and ${consequence}`);
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
    const end = force ? forceDaemon : stopDaemon;
    const key = force
      ? await this.keyOf(spec, selector)
      : ((await this.find(spec, selector))?.key ?? (await this.#targetKey(spec, selector)));
    return key === undefined ? this.#clearNamed(spec, selector) : end(bridgeFiles(this.#directory, key));
  }

  /** Clears what daemons left that were killed, where the target has gone as well and only its name is known. */
  async #clearNamed(spec: string | undefined, selector: BridgeSelector): Promise<StopResult> {
    const named = await locateKnown(spec, selector);
    if (!named) return 'none';
    const { takeDeadBridges } = await import('../daemon/dead-bridges.ts'); // seldom needed
    const dead = await takeDeadBridges(this.#directory, (target) => hasName(target, named));
    for (const files of dead) {
      await removeIfDead(files.lock);
      removeLeftovers(files);
    }
    return dead.length > 0 ? 'cleared' : 'none';
  }

  /** Ends every bridge of this user; returns how many. All are asked before the first failure is thrown. */
  async stopAll(): Promise<number> {
    const { ended, failures } = await this.stopEach();
    if (failures[0]) throw failures[0];
    return ended;
  }

  /** Ends every bridge of this user that can be ended; returns how many, how many had been killed, and why others were not. */
  async stopEach({ force = false } = {}): Promise<StoppedBridges> {
    const end = force ? forceDaemon : stopDaemon;
    const stops = await Promise.allSettled(
      controlSockets(this.#directory).map((control) => end(filesBeside(control.replace(/\.sock$/, '.pid')))),
    );
    const count = (result: StopResult) =>
      stops.filter((stop) => stop.status === 'fulfilled' && stop.value === result).length;
    return {
      ended: count('ended'),
      cleared: count('cleared'),
      failures: stops.flatMap((stop) =>
        stop.status === 'rejected' ? [toBridgeError(stop.reason, "can't end a bridge")] : [],
      ),
    };
  }

  /** Tells every daemon something that it need not answer; one that does not is none. */
  async tellAll(news: 'pause'): Promise<void> {
    await this.#askAll(news, LIST_TIMEOUT_MS);
  }

  /** Whether there is a bridge to a target. */
  async isRunning(spec: string | undefined, selector: BridgeSelector = {}): Promise<boolean> {
    return (await this.find(spec, selector)) !== undefined;
  }

  /** Every running bridge's status, by target and user. */
  async list(): Promise<DaemonStatus[]> {
    return inOrder(await this.#askAll('status'));
  }

  /**
   * The same after a look at every socket in the targets, with the daemons that do not answer: of those only the
   * process and the target are known.
   */
  async listChecked(): Promise<DaemonStatus[]> {
    const check: CheckRequest = { mend: false };
    const statuses = await Promise.all(
      controlSockets(this.#directory).map(async (control) => {
        try {
          // A daemon of an older version knows no check.
          const status =
            (await askDaemon(control, 'check', LIST_TIMEOUT_MS, check)) ??
            (await askDaemon(control, 'status', LIST_TIMEOUT_MS));
          return status && bridgeFiles(this.#directory, status.key).control === control ? status : undefined;
        } catch (error) {
          const { notAnswering } = await import('../daemon/daemon-process.ts');
          return notAnswering(filesBeside(control.replace(/\.sock$/, '.pid')), (error as BridgeError).why);
        }
      }),
    );
    return inOrder(statuses.filter((status) => status !== undefined));
  }

  /** The bridge to a target, after a look at its sockets. */
  async findChecked(
    spec: string | undefined,
    selector: BridgeSelector = {},
  ): Promise<DaemonStatus | undefined> {
    const found = await this.find(spec, selector);
    const check: CheckRequest = { mend: false };
    if (!found) return undefined;
    const { control } = bridgeFiles(this.#directory, found.key);
    return (await askDaemon(control, 'check', undefined, check)) ?? askDaemon(control, 'status');
  }

  /**
   * The running bridge to a target. Where that can't be looked up, because the engine has stopped, the container
   * was removed or the cluster does not answer, a bridge is found by the name it has in that same place.
   */
  async find(spec: string | undefined, selector: BridgeSelector = {}): Promise<DaemonStatus | undefined> {
    const target = await resolveKnown(spec, selector);
    const running = target && (await runningDaemon(bridgeFiles(this.#directory, bridgeKey(target)), target));
    if (running) return running;
    const named = (await this.#named(spec, selector, target)).filter(
      ({ user, options }) => user === target?.user || (options.user ?? '') === (selector.user ?? ''),
    );
    return named.length === 1 ? named[0] : undefined;
  }

  /** Gives a target the host's public keys and their trust again; undefined if it has no bridge. */
  async syncKeys(spec: string | undefined, selector: BridgeSelector = {}): Promise<ImportResult | undefined> {
    const found = await this.find(spec, selector);
    if (!found) return undefined;
    const { control } = bridgeFiles(this.#directory, found.key);
    const answer = (await askDaemon(control, 'sync', Number.POSITIVE_INFINITY))?.sync;
    if (answer && 'synced' in answer) return answer.synced;
    if (answer) throw BridgeError.fromJSON(answer.error);
    throw new BridgeError('DAEMON_FAILED', {
      what: `${found.target} can't be given public keys`,
      why: 'its bridge ended meanwhile, or is of an older version',
      fix: 'Run `gpg-bridge up` for it, which brings them.',
    });
  }

  /** The running bridges to a target, whoever their user is. */
  async findAll(spec: string | undefined, selector: BridgeSelector = {}): Promise<DaemonStatus[]> {
    return this.#named(spec, selector, await resolveKnown(spec, selector));
  }

  /** The key that the files of a target's bridge are named after, whether it runs or not. */
  async keyOf(spec: string | undefined, selector: BridgeSelector = {}): Promise<string | undefined> {
    // One that does not answer has the key of its target all the same.
    const running = await this.find(spec, selector).catch(() => undefined);
    return running ? running.key : this.#targetKey(spec, selector);
  }

  async #targetKey(spec: string | undefined, selector: BridgeSelector): Promise<string | undefined> {
    const target = await resolveKnown(spec, selector);
    return target && bridgeKey(target);
  }

  /** The answers of all daemons that give one; a control socket that another bridge's daemon holds does not count. */
  async #askAll(
    request: ControlRequest,
    timeoutMs?: number,
    argument?: NamedTarget,
  ): Promise<DaemonStatus[]> {
    const answers = await Promise.all(
      controlSockets(this.#directory).map(async (control) => {
        const status = await askDaemon(control, request, timeoutMs, argument).catch(() => undefined);
        return status && bridgeFiles(this.#directory, status.key).control === control ? status : undefined;
      }),
    );
    return answers.filter((status) => status !== undefined);
  }

  /** The bridges to a target, found by its ID if it is known, and else by its name. */
  async #named(
    spec: string | undefined,
    selector: BridgeSelector,
    target: Target | undefined,
  ): Promise<DaemonStatus[]> {
    const name = await locateKnown(spec, selector);
    const located = name && target?.place !== undefined ? { ...name, place: target.place } : name;
    const found = (await this.list()).filter(
      (status) =>
        (target !== undefined && isSameTarget(status, target)) || (located && matchesTarget(status, located)),
    );
    return found;
  }

  /**
   * A bridge that is ready and has this name, if its daemon confirms that the name still leads to its target.
   * The daemon does the looking up because it has the code for that loaded already.
   */
  async #confirmed(spec: string | undefined, options: BridgeOptions): Promise<DaemonStatus | undefined> {
    // A relative path, and maybe a command, depends on the working directory, which the daemon does not share; what
    // ssh and kubectl say depends on a person's whole environment.
    if (spec === undefined || options.exec !== undefined || !CONFIRMED_KINDS.test(spec)) return undefined;
    const env = Object.fromEntries(ENGINE_VARIABLES.map((name) => [name, process.env[name] ?? '']));
    const asked: NamedTarget = { spec, user: options.user, env, options };
    const [status, another] = await this.#askAll('confirm', CONFIRM_TIMEOUT_MS, asked);
    if (!status || another) return undefined;
    const isUp = status.state === 'ready' || status.state === 'broken';
    return isUp && (await isUsable(status, options)) ? status : undefined;
  }

  /** The bridge to a target, or one that follows the name by which it is meant and has not got there yet. */
  async #running(files: BridgeFiles, target: Target): Promise<DaemonStatus | undefined> {
    const running = await runningDaemon(files, target);
    if (running || !target.byName) return running;
    return (await this.list()).find(
      ({ followsName, options, state, key, target: name, place, user }) =>
        followsName &&
        (target.kind === 'k8s' || (options.restart && state === 'waiting-for-target')) &&
        key.startsWith(`${target.kind}\n`) &&
        name === target.name &&
        place === target.place &&
        user === target.user,
    );
  }

  async #reuse(
    target: Target,
    running: DaemonStatus,
    { takeover, until }: BridgeOptions,
  ): Promise<BridgeInfo> {
    const files = bridgeFiles(this.#directory, running.key);
    if (running.state !== 'ready' && running.state !== 'broken') {
      this.#progress(`waiting for the bridge to ${target.name}`);
      // One that turns to another container of its name lets go of its first control socket, and takes the target's.
      const there = bridgeFiles(this.#directory, bridgeKey(target));
      const status =
        (await askDaemon(files.control, 'ready', READY_TIMEOUT_MS)) ??
        (await askDaemon(there.control, 'ready', READY_TIMEOUT_MS));
      if (status) return infoOf(status, 'running');
    }
    const check: CheckRequest = { mend: true, takeover, until };
    const checked = await askDaemon(files.control, 'check', CHECK_TIMEOUT_MS, check);
    if (checked) return workingInfo(checked);
    throw new BridgeError('DAEMON_FAILED', {
      what: `the bridge to ${target.name} ended`,
      why: running.lastError ?? 'it went away while it was being waited for',
      fix: `Try again, or see ${files.log} for what happened.`,
    });
  }

  /** Waits until no other process is starting this bridge, and keeps others from it until released. */
  async #lock(path: string): Promise<Claim> {
    for (;;) {
      const held = await claim(path);
      if (held) return held;
      await untilReleased(path);
    }
  }
}

/** The daemon behind a control socket, if it is alive and really is this target's. */
async function runningDaemon(files: BridgeFiles, target: Target): Promise<DaemonStatus | undefined> {
  const status = await askDaemon(files.control, 'status');
  return status?.key === bridgeKey(target) ? status : undefined;
}

/** Asks a daemon to end and waits for it; if nobody answers, what it may have left is cleared. */
async function stopDaemon(files: BridgeFiles): Promise<StopResult> {
  if (await askDaemon(files.control, 'stop', STOP_TIMEOUT_MS)) return 'ended';
  const isLeft = existsSync(files.pid) || existsSync(files.control);
  await removeIfDead(files.lock);
  // Another process may be starting this bridge just now, and holds the control socket then.
  if (!(await removeIfDead(files.control)) && existsSync(files.control)) return 'none';
  removeLeftovers(files);
  return isLeft ? 'cleared' : 'none';
}

/** The same, but one that does not answer is killed if its process is proven to be this bridge's. */
async function forceDaemon(files: BridgeFiles): Promise<StopResult> {
  try {
    return await stopDaemon(files);
  } catch (error) {
    const { killDaemon } = await import('../daemon/daemon-process.ts');
    if (!(await killDaemon(files))) throw error;
    await removeIfDead(files.control);
    removeLeftovers(files);
    return 'ended';
  }
}

/** Removes the PID file of a daemon that was killed. No process is signalled: the PID may be another's by now. */
function removeLeftovers(files: BridgeFiles): void {
  rmSync(files.pid, { force: true });
}

/** Whether a daemon's bridge is not about to end, is what is wanted, and lacks no agent that could be had. */
async function isUsable(running: DaemonStatus, given: BridgeOptions): Promise<boolean> {
  if (running.state === 'ending') return false;
  const wanted = mergedOptions(running.options, given);
  return optionChanges(running.options, wanted).length === 0 && !(await couldHaveSsh(running, wanted));
}

/** Whether the ssh-agent that a bridge did not find when it attached is there by now. */
async function couldHaveSsh(
  { state, missing }: DaemonStatus,
  { sshAuthSock }: BridgeOptions,
): Promise<boolean> {
  const isUp = state === 'ready' || state === 'broken';
  if (!isUp || !missing.includes('ssh-agent') || sshAuthSock === undefined) return false;
  return isListening(sshAuthSock);
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => settle(true));
    socket.on('error', () => settle(false));
    const settle = (listens: boolean) => {
      socket.destroy();
      resolve(listens);
    };
  });
}

function inOrder(statuses: DaemonStatus[]): DaemonStatus[] {
  const name = ({ target, user, pid }: DaemonStatus) => `${target}\0${user}\0${pid}`;
  return statuses.sort((a, b) => (name(a) < name(b) ? -1 : 1));
}

/** A bridge that ran already; an error if nothing of it works. */
function workingInfo(status: DaemonStatus): BridgeInfo {
  const { target, problems, sockets, warnings } = status;
  if (problems.length > 0 && problems.length >= sockets.length) {
    throw new BridgeError('BRIDGE_BROKEN', {
      what: `the bridge to ${target} does not work`,
      why: problems.join('; '),
      fix: 'Mend that and try again, or end it with `gpg-bridge down` and start anew.',
    });
  }
  return infoOf({ ...status, warnings: [...warnings, ...problems] }, 'running');
}

function infoOf(
  status: DaemonStatus,
  result: BridgeInfo['result'],
  changes: OptionChange[] = [],
): BridgeInfo {
  const { target, user, id, pid, started, runtime, sockets, warnings, offers, notes, mended } = status;
  const { shell, where } = status;
  const facts = { target, user, id, pid, started, runtime, sockets, warnings, offers, notes };
  const known = { ...(shell ? { shell } : {}), ...(where ? { where } : {}) };
  return { ...facts, ...known, result, changes, mended, variables: targetVariables(status) };
}
