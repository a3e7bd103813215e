import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { LogLevel } from '@gpg-bridge/core/log';
import { Journal } from '../bridge/journal.ts';
import type { BridgeOptions } from '../bridge-options.ts';
import { type Narrowing, restrictionWords, withoutExtensions } from '../grants/restrictions.ts';
import { bridgeKey, type Target } from '../targets/target.ts';
import { Attachment, type Succession } from './attachment.ts';
import { type DaemonStatus, serveControl } from './control.ts';
import { type AnswerUp, ControlAnswers } from './control-answers.ts';
import { DaemonState } from './daemon-state.ts';
import { Handover, type Predecessor, retirePredecessor } from './handover.ts';
import { alreadyRunning, HeldFiles } from './held-files.ts';
import { HeldGrant } from './held-grant.ts';
import { KeyUses } from './key-uses.ts';
import { LogFile } from './log-file.ts';
import { isUnknownKey, Narrower } from './narrower.ts';
import { type BridgeFiles, bridgeFiles } from './state-dir.ts';
import { daemonStatus } from './status.ts';
import type { StoredGrants } from './stored-grants.ts';
import { toldToEnd, unlessEnding } from './unless-ending.ts';

/** What a daemon is started with. */
export interface DaemonOptions {
  target: Target;
  files: BridgeFiles;
  options: BridgeOptions;
  /** Where the restrictions of its target are. */
  stored: StoredGrants;
  verbose: boolean;
  /** The daemon whose place this one takes once its bridge works. */
  predecessor?: Predecessor | undefined;
  /** Told every line of the log too, for whoever watches. */
  echo?: (line: string) => void;
  /** Makes what `up` prints of this bridge. */
  answerUp?: AnswerUp | undefined;
}

/** A bridge that has been attached so long is not one of a target that flaps. */
const STEADY_MS = 10_000;

/** How long somebody waits who is told what the target may do, while keys are looked up. */
const LOOK_UP_MS = 2_000;

/** Of a daemon that has its place already. */
const NO_SUCCESSION: Succession = { sockets: [], keeps: [] };

/** Levels that are logged with --verbose only. */
const QUIET: ReadonlySet<LogLevel> = new Set(['trace', 'debug']);

/**
 * One bridge and what keeps it: the control socket that proves it is alive, the PID file, the log, the
 * watch over the target. `run` resolves when it is over.
 */
export class Daemon {
  #target: Target;
  #options: BridgeOptions;
  readonly #verbose: boolean;
  readonly #echo: (line: string) => void;
  readonly #predecessor: Predecessor | undefined;
  readonly #ending = new AbortController();
  /** Ends the pause before the next attempt to attach. */
  #retry = () => {};
  readonly #state = new DaemonState();
  readonly #log: LogFile;
  readonly #journal: Journal;
  readonly #keyUses: KeyUses;
  readonly #narrower: Narrower;
  readonly #heldGrant: HeldGrant;
  readonly #held: HeldFiles;
  readonly #attachment: Attachment;
  readonly #handover: Handover;
  readonly #answers: ControlAnswers;

  constructor(given: DaemonOptions) {
    const { target, files, options, stored, verbose, predecessor, echo = () => {}, answerUp } = given;
    this.#target = target;
    this.#options = options;
    this.#verbose = verbose;
    this.#echo = echo;
    this.#predecessor = predecessor;
    this.#log = new LogFile(files.log, Date.now, () => this.#target.name);
    this.#journal = new Journal(
      // Behind the answer, which leaves in the same turn; that a key is used is on record before.
      (entry) => void Promise.resolve(entry).then((behind) => this.#log.appendLimited(behind)),
      (key) => this.#attachment.keys.owners.get(key),
      () => this.#keyUses.use.pace.isHeldByClients,
    );
    const current = () => this.#options;
    this.#narrower = new Narrower({
      options: current,
      setOptions: (narrower) => {
        this.#options = narrower;
      },
      keepToOptions: () => this.#attachment.keepToOptions(),
      keepToKeys: (named) => this.#attachment.keepToKeys(named),
    });
    this.#heldGrant = new HeldGrant({
      stored,
      target: () => this.#target,
      options: current,
      narrow: (narrower) => this.#narrow(narrower),
    });
    this.#keyUses = new KeyUses({
      options: current,
      held: () => this.#heldGrant.check(),
      forbids: (use) => this.#narrower.forbids(use),
      files,
      target: target.name,
      log: this.#say,
      lastUse: () => this.#lastUse(),
      end: (why) => this.#endNow(why),
    });
    const shared = { state: this.#state, journal: this.#journal, signal: this.#ending.signal };
    this.#attachment = new Attachment({
      ...shared,
      target: () => this.#target,
      files: () => this.#held.files,
      options: current,
      keyUses: this.#keyUses,
      log: this.#say,
      verbose,
    });
    const bridge = () => this.#attachment.bridge;
    const end = (why: string) => this.end(why);
    this.#handover = new Handover({
      ...shared,
      bridge,
      untilAttached: () => this.#attachment.untilStarted(),
      end: (why) => this.#endNow(why),
    });
    this.#held = new HeldFiles({
      files,
      onConnection: (socket) => serveControl(socket, (...request) => this.#answers.answer(...request)),
      onLost: () => {
        if (!this.#ending.signal.aborted) this.#endNow('its control socket was removed');
      },
      log: this.#say,
    });
    this.#answers = new ControlAnswers({
      answerUp,
      target: () => this.#target,
      options: current,
      bridge,
      status: () => this.#status(),
      renew: (until) => this.#renew(until),
      narrow: (narrower) => this.#narrow(narrower),
      keepToStored: () => this.#keepToStored(),
      retry: () => this.#retry(),
      end,
      state: this.#state,
      held: this.#held,
      handover: this.#handover,
      log: this.#say,
    });
  }

  /** Attaches, calls `ready`, and stays until it is told to end or the target goes away. */
  async run(ready: (status: DaemonStatus) => void): Promise<void> {
    const takePlace = async () => {
      await this.#held.claim(this.#held.files, this.#target);
      this.#held.writeFirstPid();
    };
    try {
      if (!this.#predecessor) await takePlace();
      await this.#attach(async (lost) => {
        if (!this.#held.isClaimed) {
          await this.#retirePredecessor(lost);
          await takePlace();
        }
        // One that was lost meanwhile and attaches again is ready then.
        if (!this.#options.restart || this.#ending.signal.aborted) lost.throwIfAborted();
        if (!lost.aborted) ready(this.#status());
      });
    } finally {
      this.#leave();
    }
  }

  /**
   * Resolves when no terminal is held for a use that the agent has not answered. Until then this process must not end,
   * though nobody finds it as a bridge any more.
   */
  terminalsReleased(): Promise<void> {
    return this.#keyUses.terminals.released();
  }

  async #retirePredecessor(lost: AbortSignal): Promise<void> {
    if (!this.#predecessor) return;
    const control = this.#predecessor.control ?? this.#held.files.control;
    await retirePredecessor(control, this.#predecessor, lost);
  }

  /** Ends the daemon for somebody, who wants no successor either; `run` resolves once everything is put away. */
  end(why: string): void {
    this.#state.wasStopped = true;
    this.#endNow(why);
  }

  #endNow(why: string): void {
    this.#say(`ending: ${why}`, 'info');
    this.#ending.abort();
  }

  async #attach(ready: (lost: AbortSignal) => Promise<void>): Promise<void> {
    for (let attempt = 0; !this.#ending.signal.aborted; attempt++) {
      if (this.#held.isLost) throw alreadyRunning(this.#target);
      const isFirst = this.#state.name === 'starting';
      try {
        if (!isFirst) await unlessEnding(this.#follow(), this.#ending.signal);
        await this.#handover.over; // which may have begun meanwhile
        if (this.#ending.signal.aborted) return;
        const attachedAt = performance.now();
        const succession = this.#held.isClaimed ? NO_SUCCESSION : this.#predecessor;
        const over = await this.#attachment.run(succession, ready);
        // One that was attached for a moment only goes on waiting longer each time.
        if (performance.now() - attachedAt > STEADY_MS) attempt = 0;
        if (!this.#options.restart || this.#ending.signal.aborted) return;
        this.#say(`waiting for ${this.#target.name} to come back: ${over}`, 'info');
      } catch (error) {
        const isEnding = this.#ending.signal.aborted;
        if (!isFirst && isEnding) return;
        // Whatever failed then did so because it ends.
        const failure = isEnding ? toldToEnd() : toBridgeError(error, `can't attach to ${this.#target.name}`);
        this.#state.lastError = failure.message;
        this.#log.say(failure.message, 'error');
        // --restart waits for a target that was bridged once, not for one that never was.
        const mayWait = !isFirst && this.#held.isClaimed && this.#options.restart;
        if (!mayWait || failure.code === 'BRIDGE_EXISTS') throw failure;
      }
      this.#state.enter('waiting-for-target');
      const pause = new AbortController();
      const onPause = (until: Date) => {
        if (pause.signal.aborted) return; // it comes late
        this.#state.nextAttempt = until;
        const tenths = Math.round((until.getTime() - Date.now()) / 100); // not 0.499 s
        this.#say(`the next attempt to attach is in ${tenths / 10} s`, 'info');
      };
      this.#retry = () => pause.abort();
      this.#ending.signal.addEventListener('abort', this.#retry);
      await unlessEnding(this.#target.comesBack(attempt, pause.signal, onPause), pause.signal)
        .catch((error: unknown) => {
          if (!pause.signal.aborted) throw error; // the target never comes back
        })
        .finally(() => this.#ending.signal.removeEventListener('abort', this.#retry));
      this.#state.nextAttempt = undefined;
      await this.#handover.over;
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
    const { control } = this.#held.files;
    const directory = dirname(control);
    const isNamedByKey = bridgeFiles(directory, before).control === control;
    this.#target = latest;
    this.#options = withoutExtensions(this.#options);
    if (!isNamedByKey) return; // a person chose the names of the files
    const files = bridgeFiles(directory, key);
    await this.#held.claim(files, latest);
    this.#log.moveTo(files.log);
    this.#keyUses.moveTo(files, latest.name); // what another container does is another record
    this.#held.rewritePid();
  }

  /** When a key was used last; a bridge is not idle before it works. */
  #lastUse(): number {
    if (this.#state.name === 'starting') return Date.now();
    return Math.max(this.#journal.lastUse(), this.#state.readySince);
  }

  /** Gives the bridge more time, or less, if a person said --for again. */
  #renew(until: string | undefined): void {
    if (until === undefined || until === this.#options.until) return;
    this.#options = { ...this.#options, until };
    this.#keyUses.lifetime.renew(until);
    this.#say(`it ends at ${until}`, 'info');
  }

  /** Keeps to narrower options from now on, whatever becomes of the change that they are a part of. */
  async #narrow(narrower: Narrowing): Promise<void> {
    try {
      await this.#narrower.narrow(narrower);
    } catch (error) {
      if (isUnknownKey(error)) this.#heldGrant.failed(narrower, error as BridgeError);
      throw error;
    }
    this.#say(`narrowed: ${restrictionWords(this.#options).join(', ')}`, 'info');
  }

  /** Keeps to what is stored by now, before somebody is told what the target may do. */
  async #keepToStored(): Promise<BridgeError | undefined> {
    this.#heldGrant.check();
    await Promise.race([this.#narrower.settled(), delay(LOOK_UP_MS, undefined, { ref: false })]);
    return this.#heldGrant.check();
  }

  #status(): DaemonStatus {
    return daemonStatus({
      target: this.#target,
      options: this.#options,
      state: this.#state,
      attachment: this.#attachment,
      lifetime: this.#keyUses.lifetime,
      journal: this.#journal,
      log: this.#log,
      ungranted: this.#heldGrant.check(),
    });
  }

  readonly #say = (message: string, level: LogLevel): void => {
    if (!this.#verbose && QUIET.has(level)) return;
    this.#log.say(message, level);
    this.#echo(message);
  };

  /** Puts away what this daemon made. */
  #leave(): void {
    this.#keyUses.lifetime.stop();
    this.#held.release();
  }
}
