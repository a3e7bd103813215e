import { type FSWatcher, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyUseRecord } from '@gpg-bridge/core/host/key-use-record';
import type { TargetUse } from '@gpg-bridge/core/host/key-use-rules';
import { PromptPace } from '@gpg-bridge/core/host/prompt-pace';
import type { LogLevel } from '@gpg-bridge/core/log';
import { launcherCommand } from '@gpg-bridge/socket-server';
import type { Bridge } from '../bridge/bridge.ts';
import { Journal } from '../bridge/journal.ts';
import type { BridgeOptions } from '../bridge-options.ts';
import { inHome } from '../targets/home.ts';
import { locateTarget, resolveTarget } from '../targets/resolve.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { type Claim, claim } from './claim.ts';
import { type ControlRequest, type DaemonStatus, type NamedTarget, serveControl } from './control.ts';
import { findHolder } from './find-holder.ts';
import { LogFile } from './log-file.ts';
import { matchesTarget } from './match-target.ts';

import {
  type BridgeFiles,
  bridgeFiles,
  ensureStateDirectory,
  recordDirectory,
  unusableState,
  useRecordPath,
} from './state-dir.ts';
import { UseRecordFile } from './use-record-file.ts';

/** What a daemon is started with. */
export interface DaemonOptions {
  target: Target;
  files: BridgeFiles;
  options: BridgeOptions;
  verbose: boolean;
  /** Told every line of the log too, for whoever watches. */
  echo?: (line: string) => void;
}

/** Levels that are logged with --verbose only. */
const QUIET: ReadonlySet<LogLevel> = new Set(['trace', 'debug']);

/**
 * One bridge and what keeps it: the control socket that proves it is alive, the PID file, the log, the
 * watch over the target. `run` resolves when it is over.
 */
export class Daemon {
  #target: Target;
  #files: BridgeFiles;
  readonly #options: BridgeOptions;
  readonly #verbose: boolean;
  readonly #echo: (line: string) => void;
  readonly #log: LogFile;
  readonly #use: TargetUse;
  readonly #journal: Journal;
  readonly #started = new Date();
  /** On a clock that nobody sets. */
  readonly #startedAt = performance.now();
  readonly #ending = new AbortController();
  #state: DaemonStatus['state'] = 'starting';
  #stateSince = Date.now();
  #control: Claim | undefined;
  #place: FSWatcher | undefined;
  #bridge: Bridge | undefined;
  #agentWarnings: readonly string[] = [];
  #missing: readonly string[] = [];
  /** Totals of earlier bridges of this daemon, from before it attached again. */
  #before = { sessions: 0, toHost: 0, toTarget: 0 };
  #lastError: string | null = null;
  #attached: (() => void)[] = [];

  constructor({ target, files, options, verbose, echo = () => {} }: DaemonOptions) {
    this.#target = target;
    this.#files = files;
    this.#options = options;
    this.#verbose = verbose;
    this.#echo = echo;
    this.#log = new LogFile(files.log);
    this.#journal = new Journal((entry) => this.#log.appendLimited(entry));
    this.#use = { limits: {}, pace: new PromptPace(), record: this.#openRecord() };
  }

  /** Without a record nothing is signed or decrypted; everything else works, and says why. */
  #openRecord(): KeyUseRecord {
    try {
      ensureStateDirectory(recordDirectory());
      return new UseRecordFile(useRecordPath(this.#files), this.#target.name);
    } catch (error) {
      const failure = toBridgeError(error, "the record of key uses can't be opened");
      this.#log.say(failure.message, 'error');
      return {
        begin() {
          throw failure;
        },
      };
    }
  }

  /** Attaches, calls `ready`, and stays until it is told to end or the target goes away. */
  async run(ready: (status: DaemonStatus) => void): Promise<void> {
    await this.#claim(this.#files);
    try {
      this.#firstPid();
      await this.#attach(ready);
    } finally {
      this.#leave();
    }
  }

  /** Ends the daemon; `run` resolves once everything is put away. */
  end(why: string): void {
    this.#say(`ending: ${why}`, 'info');
    this.#ending.abort();
  }

  /** Takes the control socket of these files, and lets go of the one it had. */
  async #claim(files: BridgeFiles): Promise<void> {
    const control = await claim(files.control, (socket) =>
      serveControl(socket, (request, argument) => this.#answer(request, argument)),
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

  async #attach(ready: (status: DaemonStatus) => void): Promise<void> {
    for (let attempt = 0; !this.#ending.signal.aborted; attempt++) {
      if (!this.#control?.holds()) throw alreadyRunning(this.#target);
      const isFirst = this.#state === 'starting';
      try {
        if (!isFirst) await this.#follow();
        const over = await this.#bridgeOnce(() => {
          attempt = 0;
          ready(this.#status());
        });
        if (!this.#options.restart) return;
        this.#say(`waiting for ${this.#target.name} to come back: ${over}`, 'info');
      } catch (error) {
        const failure = toBridgeError(error, `can't attach to ${this.#target.name}`);
        this.#lastError = failure.message;
        this.#log.say(failure.message, 'error');
        // --restart waits for a target that was bridged once, not for one that never was.
        if (isFirst || !this.#options.restart || failure.code === 'BRIDGE_EXISTS') throw failure;
      }
      this.#enter('waiting-for-target');
      await this.#target.comesBack(attempt, this.#ending.signal).catch((error: unknown) => {
        if (!this.#ending.signal.aborted) throw error; // the target never comes back
      });
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
    this.#mendPid();
  }

  /** Attaches once, and serves until that bridge ends; resolves with why it did. */
  async #bridgeOnce(ready: () => void): Promise<string> {
    await this.#target.check();
    const launcher = inHome(this.#options.home, launcherCommand(this.#options.runtime));
    const launched = await this.#target.exec(launcher);
    const { Bridge, findHostAgents } = await import('./late-modules.ts');
    // Looked for at every attachment: one that was missing may be there by now.
    const agents = findHostAgents(this.#options, this.#say).then((found) => {
      this.#agentWarnings = found.warnings;
      this.#missing = found.missing;
      return found.agents;
    });
    const bridge = await Bridge.start({
      target: this.#target,
      launched,
      agents,
      sshKeys: this.#options.sshKeys,
      ...(this.#options.gpg === false ? {} : { keys: this.#options.keys ?? 'pairs' }),
      runtime: this.#options.runtime,
      takeover: this.#options.takeover,
      holderOf: (socket) => findHolder(this.#files.control, socket),
      use: this.#use,
      journal: this.#journal,
      log: this.#say,
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
    const watching = this.#target.watch(end).catch(() => () => {});
    try {
      this.#bridge = bridge;
      this.#enter('ready');
      this.#lastError = null;
      this.#say(
        `bridged ${this.#target.name}: ${bridge.info.sockets.map(({ path }) => path).join(', ')}`,
        'info',
      );
      ready();
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

  async #answer(request: ControlRequest, argument: unknown): Promise<unknown> {
    if (request === 'confirm' && !(await this.#isNamed(argument as NamedTarget))) return undefined;
    if (request === 'holds' && !(await this.#bridge?.holds(argument as SocketIdentity))) return undefined;
    if (readPid(this.#files.pid) !== process.pid) this.#mendPid();
    if (request === 'stop') setImmediate(() => this.end('it was asked to'));
    if (request === 'ready' && this.#state !== 'ready') {
      await new Promise<void>((resolve) => this.#attached.push(resolve));
    }
    return this.#status();
  }

  /** Whether what a person named, looked up with that person's environment, is this bridge's target and runs. */
  async #isNamed({ spec, user, env }: NamedTarget): Promise<boolean> {
    try {
      const surroundings = { ...process.env, ...env };
      const named = await locateTarget(spec, { env: surroundings });
      if (named ? !matchesTarget(this.#status(), named) : spec !== this.#target.name) return false;
      const target = await resolveTarget(spec, { user, env: surroundings });
      await target.check();
      return bridgeKey(target) === bridgeKey(this.#target);
    } catch {
      return false; // the caller then resolves the target itself, and gets the error
    }
  }

  #status(): DaemonStatus {
    const stats = this.#bridge?.stats;
    return {
      key: bridgeKey(this.#target),
      target: this.#target.name,
      id: this.#target.id,
      pid: process.pid,
      started: this.#started.toISOString(),
      uptimeSeconds: Math.floor((performance.now() - this.#startedAt) / 1000),
      state: this.#state,
      stateSeconds: Math.floor((Date.now() - this.#stateSince) / 1000),
      ...(this.#target.place === undefined ? {} : { place: this.#target.place }),
      ...(this.#target.where === undefined ? {} : { where: this.#target.where }),
      user: this.#target.user,
      followsName: this.#target.byName ?? false,
      runtime: this.#bridge?.info.runtime ?? '',
      sockets: [...(this.#bridge?.info.sockets ?? [])],
      warnings: [...this.#agentWarnings, ...(this.#bridge?.info.warnings ?? [])],
      ...(this.#target.shell ? { shell: this.#target.shell } : {}),
      options: this.#options,
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
      lastError: this.#lastError,
    };
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
      this.#writePid();
    } catch (error) {
      this.#say(`can't write ${this.#files.pid}: ${(error as Error).message}`, 'warn');
    }
  }

  /** A state directory without room for it is of no use; half a file says nothing, and goes. */
  #firstPid(): void {
    try {
      this.#writePid();
    } catch (error) {
      rmSync(this.#files.pid, { force: true });
      throw unusableState(dirname(this.#files.pid), error as Error);
    }
  }

  #writePid(): void {
    writeFileSync(this.#files.pid, `${process.pid}\n`, { mode: 0o600 });
  }

  /** Puts away what this daemon made. */
  #leave(): void {
    this.#place?.close();
    if (this.#control) this.#release(this.#control, this.#files);
  }

  /** Removes the files that go with a control socket; a PID file that another daemon wrote stays. */
  #release(control: Claim, files: BridgeFiles): void {
    if (readPid(files.pid) === process.pid) rmSync(files.pid, { force: true });
    control.release();
  }
}

/** The PID in a file, if there is one. It proves nothing: only the control socket does. */
function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'latin1').trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function alreadyRunning(target: Target): BridgeError {
  return new BridgeError('BRIDGE_EXISTS', {
    what: `can't start a bridge to ${target.name}`,
    why: 'another one runs already',
    fix: 'Use that one, or end it with `gpg-bridge down`.',
  });
}
