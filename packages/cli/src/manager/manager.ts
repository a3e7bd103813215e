import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import { type BridgeOptions, type BridgeSelector, withHostAgents } from '../bridge-options.ts';
import { type Claim, claim, untilReleased } from '../daemon/claim.ts';
import { askDaemon, type ControlRequest, type DaemonStatus, type NamedTarget } from '../daemon/control.ts';
import { matchesTarget } from '../daemon/match-target.ts';
import {
  type BridgeFiles,
  bridgeFiles,
  controlSockets,
  ensureStateDirectory,
  filesBeside,
  stateDirectory,
} from '../daemon/state-dir.ts';
import { resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { isSameTarget, locateKnown, resolveKnown } from './look-up.ts';
import type { BridgeInfo, SocketBridgeManager } from './types.ts';

/** How a manager is set up; everything has a default. */
export interface ManagerOptions {
  stateDirectory?: string;
  /** The gpg-bridge program that daemons run, where the manager is used by another one. */
  program?: string;
  /** Told what is going on, for a person who waits. */
  progress?: (text: string) => void;
  /** Gives up on a bridge that is being started. */
  signal?: AbortSignal;
}

/** The variables that decide in which engine a name is looked up; an unset one counts as empty. */
const ENGINE_VARIABLES = [
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
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
/** More than the three seconds that a daemon gives its target to remove the sockets. */
const STOP_TIMEOUT_MS = 15_000;

/** Starts, finds and ends bridges, each in a daemon of its own that outlives this process. */
export class Manager implements SocketBridgeManager {
  readonly #directory: string;
  readonly #program: string | undefined;
  readonly #progress: (text: string) => void;
  readonly #signal: AbortSignal | undefined;

  constructor(options: ManagerOptions = {}) {
    this.#directory = options.stateDirectory ?? stateDirectory();
    this.#program = options.program;
    this.#progress = options.progress ?? (() => {});
    this.#signal = options.signal;
  }

  /** Makes sure that a bridge with these options runs; returns when it is ready. */
  async ensureBridge(spec: string | undefined, wanted: BridgeOptions = {}): Promise<BridgeInfo> {
    const options = withHostAgents(wanted, process.env);
    const confirmed = await this.#confirmed(spec, options);
    if (confirmed) return infoOf(confirmed, { reused: true, restarted: false });
    const target = await resolveTarget(spec, options);
    await target.check();
    const files = bridgeFiles(this.#directory, bridgeKey(target));
    let running = await this.#running(files, target);
    if (running && (await isUsable(running, options))) return this.#reuse(target, running);
    ensureStateDirectory(this.#directory);
    const lock = await this.#lock(files.lock);
    try {
      // Somebody else may have started it while we waited.
      running = await this.#running(files, target);
      if (running && (await isUsable(running, options))) return await this.#reuse(target, running);
      const restarted = running !== undefined && running.state !== 'ending';
      if (restarted) this.#progress(`restarting the bridge to ${target.name} with other options`);
      if (running) await stopDaemon(bridgeFiles(this.#directory, running.key));
      this.#progress(`connecting to ${target.name}`);
      removeLeftovers(files);
      // Loaded late: an `up` that finds its bridge running has to be quick, and does not need it.
      const { spawnDaemon } = await import('./spawn-daemon.ts');
      // An ssh-agent that this environment does not name stays the one that another named.
      const { sshAuthSock = running?.options.sshAuthSock } = options;
      const kept = sshAuthSock === undefined || options.ssh === false ? options : { ...options, sshAuthSock };
      const status = await spawnDaemon(target, files, kept, this.#program, this.#signal);
      return infoOf(status, { reused: false, restarted });
    } finally {
      lock.release();
    }
  }

  /** Ends the bridge to a target; false if there was none. */
  async stopBridge(spec: string | undefined, selector: BridgeSelector = {}): Promise<boolean> {
    const status = await this.find(spec, selector);
    return status ? stopDaemon(bridgeFiles(this.#directory, status.key)) : false;
  }

  /** Ends every bridge of this user; returns how many. */
  async stopAll(): Promise<number> {
    const stops = await Promise.allSettled(
      controlSockets(this.#directory).map((control) =>
        stopDaemon(filesBeside(control.replace(/\.sock$/, '.pid'))),
      ),
    );
    // All are asked to end before the first failure is thrown.
    for (const stop of stops) if (stop.status === 'rejected') throw stop.reason;
    return stops.filter((stop) => stop.status === 'fulfilled' && stop.value).length;
  }

  /** Whether there is a bridge to a target. */
  async isRunning(spec: string | undefined, selector: BridgeSelector = {}): Promise<boolean> {
    return (await this.find(spec, selector)) !== undefined;
  }

  /** Every running bridge's status. */
  list(): Promise<DaemonStatus[]> {
    return this.#askAll('status');
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

  /** The running bridges to a target, whoever their user is. */
  async findAll(spec: string | undefined, selector: BridgeSelector = {}): Promise<DaemonStatus[]> {
    return this.#named(spec, selector, await resolveKnown(spec, selector));
  }

  /** The key that the files of a target's bridge are named after, whether it runs or not. */
  async keyOf(spec: string | undefined, selector: BridgeSelector = {}): Promise<string | undefined> {
    const running = await this.find(spec, selector);
    if (running) return running.key;
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
    const asked: NamedTarget = { spec, user: options.user, env };
    const [status, another] = await this.#askAll('confirm', CONFIRM_TIMEOUT_MS, asked);
    if (!status || another) return undefined;
    return status.state === 'ready' && (await isUsable(status, options)) ? status : undefined;
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

  async #reuse(target: Target, running: DaemonStatus): Promise<BridgeInfo> {
    const how = { reused: true, restarted: false };
    if (running.state === 'ready') return infoOf(running, how);
    this.#progress(`waiting for the bridge to ${target.name}`);
    const files = bridgeFiles(this.#directory, running.key);
    // One that turns to another container of its name lets go of its first control socket, and takes the target's.
    const there = bridgeFiles(this.#directory, bridgeKey(target));
    const status =
      (await askDaemon(files.control, 'ready', READY_TIMEOUT_MS)) ??
      (await askDaemon(there.control, 'ready', READY_TIMEOUT_MS));
    if (status) return infoOf(status, how);
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

/** Asks a daemon to end and waits for it; false if nobody answers. */
async function stopDaemon(files: BridgeFiles): Promise<boolean> {
  const status = await askDaemon(files.control, 'stop', STOP_TIMEOUT_MS);
  if (status === undefined) removeLeftovers(files);
  return status !== undefined;
}

/** Removes the PID file of a daemon that was killed. No process is signalled: the PID may be another's by now. */
function removeLeftovers(files: BridgeFiles): void {
  rmSync(files.pid, { force: true });
}

/** Whether a daemon's bridge is not about to end, has the wanted options, and lacks no agent that could be had. */
async function isUsable(running: DaemonStatus, options: BridgeOptions): Promise<boolean> {
  if (running.state === 'ending' || !sameOptions(running.options, options)) return false;
  const { sshAuthSock } = options;
  const lacksSsh = running.state === 'ready' && running.missing.includes('ssh-agent');
  return !(lacksSsh && sshAuthSock !== undefined && (await isListening(sshAuthSock)));
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

/** Whether a bridge is what is wanted; what says which bridge is meant is not among the options. */
function sameOptions(present: BridgeOptions, wanted: BridgeOptions): boolean {
  // Without SSH_AUTH_SOCK nothing is said about the ssh-agent; without GNUPGHOME, GnuPG's own home is meant.
  const { sshAuthSock = present.sshAuthSock } = wanted;
  return normal(present) === normal({ ...wanted, ...(sshAuthSock === undefined ? {} : { sshAuthSock }) });
}

function normal(options: BridgeOptions): string {
  const { keys = 'pairs', sshKeys = [], takeover: _takeover, user: _user, exec: _exec, ...rest } = options;
  const { sshAuthSock, ...others } = rest;
  const usesSshAuthSock = options.ssh !== false && !options.sshFromGpg;
  const entries = Object.entries({
    ...others,
    keys,
    sshKeys: [...sshKeys].sort(),
    sshAuthSock: usesSshAuthSock ? sshAuthSock : undefined,
  });
  return JSON.stringify(
    entries.filter(([, value]) => value !== undefined).sort(([x], [y]) => (x < y ? -1 : 1)),
  );
}

function infoOf(status: DaemonStatus, how: Pick<BridgeInfo, 'reused' | 'restarted'>): BridgeInfo {
  const { target, id, pid, started, runtime, sockets, warnings, shell, where } = status;
  const facts = { target, id, pid, started, runtime, sockets, warnings };
  return { ...facts, ...(shell ? { shell } : {}), ...(where ? { where } : {}), ...how };
}
