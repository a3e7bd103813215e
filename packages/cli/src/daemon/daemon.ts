import { once } from 'node:events';
import { type FSWatcher, rmSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { LogLevel } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import type { Bridge } from '../bridge/bridge.ts';
import { heartbeatTimes } from '../bridge/heartbeat-times.ts';
import type { KnownKeys } from '../bridge/host-agents.ts';
import { Journal } from '../bridge/journal.ts';
import {
  type BridgeOptions,
  isGpgImplied,
  isSshImplied,
  mergedOptions,
  optionChanges,
} from '../bridge-options.ts';
import { inHome } from '../targets/home.ts';
import { locateTarget, resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { type Claim, claim } from './claim.ts';
import {
  askDaemon,
  type CheckRequest,
  type ControlRequest,
  type DaemonStatus,
  type NamedTarget,
  type RetireRequest,
  type SyncAnswer,
  serveControl,
} from './control.ts';
import { findHolder } from './find-holder.ts';
import { KeyUses } from './key-uses.ts';
import { LogFile } from './log-file.ts';
import { matchesTarget } from './match-target.ts';
import { removeOldLogs } from './old-logs.ts';
import { currentPause, pausedUntil } from './pause.ts';
import { readPid, writePid } from './pid-file.ts';
import { type BridgeFiles, bridgeFiles, unusableState } from './state-dir.ts';

/** What a daemon is started with. */
export interface DaemonOptions {
  target: Target;
  files: BridgeFiles;
  options: BridgeOptions;
  verbose: boolean;
  /** The daemon whose place this one takes once its bridge works. */
  predecessor?: Predecessor | undefined;
  /** Told every line of the log too, for whoever watches. */
  echo?: (line: string) => void;
}

/** A bridge to the same target that goes when this one is there. */
export interface Predecessor {
  /** Its control socket, if that is not the one which this bridge is going to have. */
  control?: string | undefined;
  /** The types of the sockets that it holds in the target. */
  sockets: readonly SocketType[];
  /** Whether it goes without finishing what is in flight. */
  now: boolean;
}

/** A bridge that has been attached so long is not one of a target that flaps. */
const STEADY_MS = 10_000;

/** Levels that are logged with --verbose only. */
const QUIET: ReadonlySet<LogLevel> = new Set(['trace', 'debug']);

/**
 * One bridge and what keeps it: the control socket that proves it is alive, the PID file, the log, the
 * watch over the target. `run` resolves when it is over.
 */
export class Daemon {
  #target: Target;
  #files: BridgeFiles;
  #options: BridgeOptions;
  readonly #verbose: boolean;
  readonly #echo: (line: string) => void;
  readonly #predecessor: Predecessor | undefined;
  readonly #log: LogFile;
  readonly #keyUses: KeyUses;
  readonly #journal: Journal;
  readonly #started = new Date();
  /** On a clock that nobody sets. */
  readonly #startedAt = performance.now();
  readonly #ending = new AbortController();
  #state: DaemonStatus['state'] = 'starting';
  #stateSince = Date.now();
  /** When it attached last, in milliseconds since the epoch. */
  #readySince = 0;
  #control: Claim | undefined;
  #place: FSWatcher | undefined;
  #bridge: Bridge | undefined;
  #agentWarnings: readonly string[] = [];
  #missing: readonly string[] = [];
  #keys: KnownKeys = { offers: { gpg: null, ssh: null }, owners: new Map() };
  /** Totals of earlier bridges of this daemon, from before it attached again. */
  #before = { sessions: 0, toHost: 0, toTarget: 0 };
  #lastError: string | null = null;
  #attached: (() => void)[] = [];
  #nextAttempt: Date | undefined;
  /** What the last check found. */
  #problems: readonly string[] = [];
  #brokenSince: number | undefined;
  /** Until then another bridge may take this one's place, and this one does not attach. */
  #handover: Promise<void> | undefined;

  constructor({ target, files, options, verbose, predecessor, echo = () => {} }: DaemonOptions) {
    this.#target = target;
    this.#files = files;
    this.#options = options;
    this.#verbose = verbose;
    this.#echo = echo;
    this.#predecessor = predecessor;
    this.#log = new LogFile(files.log, Date.now, () => this.#target.name);
    this.#journal = new Journal(
      (entry) => this.#log.appendLimited(entry),
      (key) => this.#keys.owners.get(key),
    );
    this.#keyUses = new KeyUses({
      options,
      files,
      target: target.name,
      log: this.#say,
      lastUse: () => this.#lastUse(),
      end: (why) => this.end(why),
    });
  }

  /** Attaches, calls `ready`, and stays until it is told to end or the target goes away. */
  async run(ready: (status: DaemonStatus) => void): Promise<void> {
    const takePlace = async () => {
      await this.#claim(this.#files);
      this.#firstPid();
    };
    try {
      if (!this.#predecessor) await takePlace();
      await this.#attach(async () => {
        if (!this.#control) {
          await this.#retirePredecessor();
          await takePlace();
        }
        ready(this.#status());
      });
    } finally {
      this.#leave();
    }
  }

  /** This bridge works: the one before it finishes what is in flight and ends. */
  async #retirePredecessor(): Promise<void> {
    const argument: RetireRequest = { now: this.#predecessor?.now };
    const control = this.#predecessor?.control ?? this.#files.control;
    await askDaemon(control, 'retire', Number.POSITIVE_INFINITY, argument, {
      signal: this.#ending.signal,
    });
  }

  /** Ends the daemon; `run` resolves once everything is put away. */
  end(why: string): void {
    this.#say(`ending: ${why}`, 'info');
    this.#ending.abort();
  }

  /** Takes the control socket of these files, and lets go of the one it had. */
  async #claim(files: BridgeFiles): Promise<void> {
    const control = await claim(files.control, (socket) =>
      serveControl(socket, (request, argument, closed) => this.#answer(request, argument, closed)),
    );
    if (!control) throw alreadyRunning(this.#target);
    const before = { control: this.#control, files: this.#files };
    this.#control = control;
    this.#files = files;
    this.#place?.close();
    this.#place = this.#watchPlace(control);
    if (before.control) this.#release(before.control, before.files);
  }

  #enter(state: DaemonStatus['state']): void {
    if (state !== this.#state) this.#stateSince = Date.now();
    this.#state = state;
  }

  async #attach(ready: () => Promise<void>): Promise<void> {
    for (let attempt = 0; !this.#ending.signal.aborted; attempt++) {
      if (this.#control?.holds() === false) throw alreadyRunning(this.#target);
      const isFirst = this.#state === 'starting';
      try {
        if (!isFirst) await this.#follow();
        const attachedAt = performance.now();
        const over = await this.#bridgeOnce(ready);
        // One that was attached for a moment only goes on waiting longer each time.
        if (performance.now() - attachedAt > STEADY_MS) attempt = 0;
        if (!this.#options.restart) return;
        this.#say(`waiting for ${this.#target.name} to come back: ${over}`, 'info');
      } catch (error) {
        const failure = toBridgeError(error, `can't attach to ${this.#target.name}`);
        this.#lastError = failure.message;
        this.#log.say(failure.message, 'error');
        // --restart waits for a target that was bridged once, not for one that never was.
        const mayWait = !isFirst && this.#control && this.#options.restart;
        if (!mayWait || failure.code === 'BRIDGE_EXISTS') throw failure;
      }
      this.#enter('waiting-for-target');
      const onPause = (until: Date) => {
        this.#nextAttempt = until;
        this.#say(`the next attempt to attach is in ${(until.getTime() - Date.now()) / 1000} s`, 'info');
      };
      await this.#target.comesBack(attempt, this.#ending.signal, onPause).catch((error: unknown) => {
        if (!this.#ending.signal.aborted) throw error; // the target never comes back
      });
      this.#nextAttempt = undefined;
      await this.#handover;
    }
  }

  /** Turns to what the person's name for the target leads to by now. */
  async #follow(): Promise<void> {
    const latest = await this.#target.latest?.();
    if (!latest) return;
    const [key, before] = [bridgeKey(latest), bridgeKey(this.#target)];
    if (key === before) {
      this.#target = latest;
      return;
    }
    this.#say(`${latest.name} is another one now: ${latest.id}, no longer ${this.#target.id}`, 'warn');
    const directory = dirname(this.#files.control);
    const isNamedByKey = bridgeFiles(directory, before).control === this.#files.control;
    this.#target = latest;
    if (!isNamedByKey) return; // a person chose the names of the files
    const files = bridgeFiles(directory, key);
    await this.#claim(files);
    this.#log.moveTo(files.log);
    this.#keyUses.moveTo(files, latest.name); // what another container does is another record
    this.#mendPid();
  }

  /** Attaches once, and serves until that bridge ends; resolves with why it did. */
  async #bridgeOnce(ready: () => Promise<void>): Promise<string> {
    await this.#target.check();
    const launcher = inHome(this.#options.home, launcherCommand(chosenRuntime(this.#options)));
    const launched = await this.#target.exec(launcher);
    const { afterKeyringChange, Bridge, confirmUses, findHostAgents, notifyOfUses } = await import(
      './late-modules.ts'
    );
    const { use } = this.#keyUses;
    const name = () => this.#target.name;
    if (this.#options.confirm) use.confirm ??= confirmUses(name, this.#say);
    if (this.#options.notify) use.notify ??= notifyOfUses(name, this.#say);
    // Looked for at every attachment: one that was missing may be there by now.
    const agents = findHostAgents(this.#options, this.#say).then((found) => {
      this.#agentWarnings = found.warnings;
      this.#missing = found.missing;
      this.#keys = found.keys;
      this.#keyUses.grant(found.gpgKeygrips);
      return found.agents;
    });
    const bridge = await Bridge.start({
      target: this.#target,
      launched,
      agents,
      ...(this.#options.gpg === false ? {} : { keys: this.#options.keys ?? 'pairs' }),
      runtime: chosenRuntime(this.#options),
      takeover: this.#options.takeover,
      ahead: this.#options.ahead,
      git: this.#options.git,
      holderOf: (socket) => findHolder(this.#files.control, socket),
      succeeds: this.#control ? [] : this.#predecessor?.sockets,
      required: requiredSockets(this.#options),
      use,
      heartbeat: heartbeatTimes(process.env),
      onKeysChange: async () => {
        this.#keys = await afterKeyringChange(this.#keys, this.#options).catch(() => this.#keys);
      },
      journal: this.#journal,
      log: this.#say,
      traceLog: this.#verbose ? this.#say : undefined,
      signal: this.#ending.signal,
    });
    let end = (_why: string) => {};
    const over = new Promise<string>((resolve) => {
      end = resolve;
    });
    const asked = () => end('it was told to');
    bridge.once('end', (error) => end(error?.why ?? 'it was stopped'));
    this.#ending.signal.addEventListener('abort', asked);
    // Without events of the engine, the end of the command's streams shows that the target has stopped.
    const watching = this.#target.watch(end, this.#say).catch((error: Error) => {
      this.#say(`${this.#target.name} can't be watched: ${error.message}`, 'warn');
      return () => {};
    });
    try {
      this.#bridge = bridge;
      this.#enter('ready');
      this.#readySince = Date.now();
      // What was wrong before is over; the log still has it.
      this.#lastError = null;
      this.#problems = [];
      this.#say(
        `bridged ${this.#target.name}: ${bridge.info.sockets.map(({ path }) => path).join(', ')}`,
        'info',
      );
      await ready();
      bridge.forgetEvents();
      bridge.watchKeys();
      removeOldLogs(dirname(this.#files.log), dirname(this.#files.control));
      for (const tell of this.#attached.splice(0)) tell();
      const why = await over;
      const isAsked = this.#ending.signal.aborted;
      // Set before `bridge.stop`, which takes time: an `up` that comes meanwhile must not reuse this bridge.
      this.#enter(isAsked || !this.#options.restart ? 'ending' : 'waiting-for-target');
      this.#lastError = isAsked ? this.#lastError : why;
      this.#say(`the bridge is over: ${why}`, 'info');
      return why;
    } finally {
      this.#ending.signal.removeEventListener('abort', asked);
      void watching.then((unwatch) => unwatch());
      await bridge.stop();
      const { streams, bytes } = bridge.stats;
      this.#before.sessions += streams.total;
      this.#before.toHost += bytes.received;
      this.#before.toTarget += bytes.sent;
      this.#bridge = undefined;
    }
  }

  async #answer(request: ControlRequest, argument: unknown, closed: Promise<void>): Promise<unknown> {
    if (request === 'confirm') return this.#confirm(argument as NamedTarget);
    if (request === 'holds' && !(await this.#bridge?.holds(argument as SocketIdentity))) return undefined;
    if (readPid(this.#files.pid) !== process.pid) this.#mendPid();
    switch (request) {
      case 'check':
        return this.#check(argument as CheckRequest);
      case 'handover':
        return this.#handOver(closed);
      case 'retire':
        void this.#retire(argument as RetireRequest, closed);
        break;
      case 'sync':
        return { ...this.#status(), sync: await this.#sync() };
      case 'idle':
        await this.#journal.untilIdle();
        break;
      case 'pause':
        this.#sayPause();
        break;
      case 'stop':
        setImmediate(() => this.end('it was asked to'));
        break;
      case 'ready':
        if (this.#state !== 'ready') await new Promise<void>((resolve) => this.#attached.push(resolve));
        break;
      default:
    }
    return this.#status();
  }

  /** The status of a bridge to a target that a person named; checked, if they want nothing else of it. */
  async #confirm(named: NamedTarget): Promise<DaemonStatus | undefined> {
    if (!(await this.#mayBeNamed(named))) return undefined;
    const isNews = optionChanges(this.#options, mergedOptions(this.#options, named.options)).length > 0;
    const [isNamed, status] = await Promise.all([
      this.#isNamed(named),
      isNews ? this.#status() : this.#check({ mend: false }),
    ]);
    if (!isNamed) return undefined;
    if (!isNews) this.#renew(named.options.until);
    if (readPid(this.#files.pid) !== process.pid) this.#mendPid();
    if (isNews || (status.state !== 'broken' && !this.#bridge?.isIncomplete)) return status;
    return this.#check({ mend: true, takeover: named.options.takeover });
  }

  /** Looks at every socket in the target as a client there would, and mends what it finds if it is told to. */
  async #check({ mend, takeover = false, until }: CheckRequest): Promise<DaemonStatus> {
    this.#renew(until);
    const bridge = this.#bridge;
    const status = this.#status(); // without the check's own session
    if (this.#state !== 'ready' || !bridge) return status;
    const { problems, mended } = await bridge.check(mend ? { takeover, log: this.#say } : undefined);
    this.#problems = problems;
    const { state, sockets, warnings } = this.#status();
    return { ...status, state, sockets, warnings, problems: [...problems], mended };
  }

  /** When a key was used last; a bridge is not idle before it works. */
  #lastUse(): number {
    if (this.#state === 'starting') return Date.now();
    return Math.max(this.#journal.lastUse(), this.#readySince);
  }

  /** Gives the bridge more time, or less, if a person said --for again. */
  #renew(until: string | undefined): void {
    if (until === undefined || until === this.#options.until) return;
    this.#options = { ...this.#options, until };
    this.#keyUses.lifetime.renew(until);
    this.#say(`it ends at ${until}`, 'info');
  }

  #sayPause(): void {
    const pause = currentPause();
    this.#say(pause ? `paused: no key is used ${pausedUntil(pause)}` : 'resumed', 'info');
  }

  async #sync(): Promise<SyncAnswer> {
    try {
      if (!this.#bridge) throw notAttached(this.#target);
      return { synced: await this.#bridge.syncKeys() };
    } catch (error) {
      return { error: toBridgeError(error, "can't synchronise public keys").toJSON() };
    }
  }

  /** Leaves the sockets to another bridge until that has taken this one's place, or its caller is gone. */
  async #handOver(closed: Promise<void>): Promise<DaemonStatus> {
    const bridge = this.#bridge;
    const inPlace = (await bridge?.inPlace()) ?? [];
    bridge?.pause();
    void closed.then(() => {
      if (this.#state !== 'ending') bridge?.resume();
    });
    this.#handover = Promise.race([closed, once(this.#ending.signal, 'abort').then(() => {})]);
    return { ...this.#status(), inPlace };
  }

  /** Ends once nothing is in flight: another bridge has the sockets already. Goes on if that one gives up. */
  async #retire({ now }: RetireRequest, closed: Promise<void>): Promise<void> {
    const before = this.#state;
    this.#enter('ending');
    const idle = now ? true : this.#journal.untilIdle().then(() => true);
    if (await Promise.race([idle, closed.then(() => false)])) this.end('another bridge has taken its place');
    else if (!this.#ending.signal.aborted) {
      this.#enter(before);
      this.#bridge?.resume();
    }
  }

  /** Whether a person's words may mean this bridge's target, as far as that shows without asking an engine. */
  async #mayBeNamed({ spec, env }: NamedTarget): Promise<boolean> {
    try {
      const named = await locateTarget(spec, { env: { ...process.env, ...env } });
      return named ? matchesTarget(this.#status(), named) : spec === this.#target.name;
    } catch {
      return false; // the caller then resolves the target itself, and gets the error
    }
  }

  /** Whether what a person named, looked up with that person's environment, is this bridge's target and runs. */
  async #isNamed({ spec, user, env }: NamedTarget): Promise<boolean> {
    try {
      const target = await resolveTarget(spec, { user, env: { ...process.env, ...env } });
      await target.check();
      return bridgeKey(target) === bridgeKey(this.#target);
    } catch {
      return false;
    }
  }

  #status(): DaemonStatus {
    const stats = this.#bridge?.stats;
    const problems = this.#knownProblems();
    const pause = currentPause();
    const isBroken = this.#state === 'ready' && problems.length > 0;
    this.#brokenSince = isBroken ? (this.#brokenSince ?? Date.now()) : undefined;
    return {
      key: bridgeKey(this.#target),
      target: this.#target.name,
      user: this.#target.user,
      id: this.#target.id,
      pid: process.pid,
      started: this.#started.toISOString(),
      uptimeSeconds: Math.floor((performance.now() - this.#startedAt) / 1000),
      state: isBroken ? 'broken' : this.#state,
      stateSeconds: Math.floor((Date.now() - (this.#brokenSince ?? this.#stateSince)) / 1000),
      ...(this.#target.place === undefined ? {} : { place: this.#target.place }),
      ...(this.#target.where === undefined ? {} : { where: this.#target.where }),
      followsName: this.#target.byName ?? false,
      problems,
      mended: [],
      nextAttempt: this.#nextAttempt?.toISOString() ?? null,
      endsAt: this.#keyUses.lifetime.endsAt?.toISOString() ?? null,
      paused: pause ? { until: pause.until ?? null } : null,
      runtime: this.#bridge?.info.runtime ?? '',
      sockets: [...(this.#bridge?.info.sockets ?? [])],
      warnings: [
        ...(pause ? [`bridges are paused ${pausedUntil(pause)}: go on with \`gpg-bridge resume\``] : []),
        ...this.#agentWarnings,
        ...(this.#bridge?.info.warnings ?? []),
      ],
      notes: [...(this.#bridge?.info.notes ?? [])],
      ...(this.#target.shell ? { shell: this.#target.shell } : {}),
      options: this.#options,
      offers: this.#keys.offers,
      missing: [...this.#missing],
      sessions: {
        open: stats?.streams.open ?? 0,
        total: this.#before.sessions + (stats?.streams.total ?? 0),
      },
      bytes: {
        toHost: this.#before.toHost + (stats?.bytes.received ?? 0),
        toTarget: this.#before.toTarget + (stats?.bytes.sent ?? 0),
      },
      waiting: this.#journal.waiting() ?? null,
      lastOperation: this.#journal.lastOperation ?? null,
      lastError: this.#lastError ?? this.#log.problem ?? null,
    };
  }

  /** What the sockets' keepers know now, and what the last check found beside that. */
  #knownProblems(): string[] {
    return [...new Set([...(this.#bridge?.problems ?? []), ...this.#problems])];
  }

  readonly #say = (message: string, level: LogLevel): void => {
    if (!this.#verbose && QUIET.has(level)) return;
    this.#log.say(message, level);
    this.#echo(message);
  };

  /** A daemon whose control socket is gone (a runtime directory that was removed) can't be found any more. */
  #watchPlace(control: Claim): FSWatcher | undefined {
    try {
      const watcher = watch(dirname(this.#files.control), () => {
        if (!control.holds() && !this.#ending.signal.aborted) this.end('its control socket was removed');
      });
      return watcher.on('error', () => {});
    } catch {
      return undefined; // the machine has no watches left: a removed socket then goes unnoticed
    }
  }

  /** Somebody changed the PID file. It proves nothing, so a bridge goes on if it can't be written. */
  #mendPid(): void {
    try {
      writePid(this.#files.pid);
    } catch (error) {
      this.#say(`can't write ${this.#files.pid}: ${(error as Error).message}`, 'warn');
    }
  }

  /** A state directory without room for it is of no use; half a file says nothing, and goes. */
  #firstPid(): void {
    try {
      writePid(this.#files.pid);
    } catch (error) {
      throw unusableState(dirname(this.#files.pid), error as Error);
    }
  }

  /** Puts away what this daemon made. */
  #leave(): void {
    this.#keyUses.lifetime.stop();
    this.#place?.close();
    if (this.#control) this.#release(this.#control, this.#files);
  }

  /** Removes the files that go with a control socket; a PID file that another daemon wrote stays. */
  #release(control: Claim, files: BridgeFiles): void {
    if (readPid(files.pid) === process.pid) rmSync(files.pid, { force: true });
    control.release();
  }
}

/** The sockets that a person asked for by name: without one of them the bridge fails. */
function requiredSockets(options: BridgeOptions): SocketType[] {
  const { gpg = isGpgImplied(options), ssh = isSshImplied(options) } = options;
  return [...(gpg ? ['gpg-agent' as const] : []), ...(ssh ? ['ssh-agent' as const] : [])];
}

function chosenRuntime({ runtime }: BridgeOptions): Runtime | undefined {
  return runtime === 'auto' ? undefined : runtime;
}

function notAttached(target: Target): BridgeError {
  return new BridgeError('TARGET_NOT_RUNNING', {
    what: `${target.name} can't be given public keys`,
    why: 'the bridge waits for it to come back',
    fix: 'Try again when it runs; a bridge that attaches again brings the keys by itself.',
  });
}

function alreadyRunning(target: Target): BridgeError {
  return new BridgeError('BRIDGE_EXISTS', {
    what: `can't start a bridge to ${target.name}`,
    why: 'another one runs already',
    fix: 'Use that one, or end it with `gpg-bridge down`.',
  });
}
