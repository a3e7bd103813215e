import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { Bridge } from '../bridge/bridge.ts';
import type { CheckReport } from '../bridge/check-sockets.ts';
import { type BridgeOptions, mergedOptions, optionChanges } from '../bridge-options.ts';
import type { Narrowing } from '../grants/restrictions.ts';
import type { Target } from '../targets/target.ts';
import type {
  CheckRequest,
  ControlRequest,
  DaemonStatus,
  NamedTarget,
  NarrowAnswer,
  RetireRequest,
  SyncAnswer,
  UpAnswer,
  UpRequest,
} from './control.ts';
import type { DaemonState } from './daemon-state.ts';
import type { Handover } from './handover.ts';
import type { HeldFiles } from './held-files.ts';
import { isNamed, mayBeNamed } from './named-target.ts';
import { currentPause, pausedUntil } from './pause.ts';

/** Makes what `up` prints from a person's words, once `confirm` has said that they mean this bridge. */
export type AnswerUp = (
  request: UpRequest,
  confirm: (named: NamedTarget) => Promise<DaemonStatus | undefined>,
) => Promise<UpAnswer | undefined>;

/** What a daemon answers from. */
export interface ControlledDaemon {
  answerUp?: AnswerUp | undefined;
  target(): Target;
  options(): BridgeOptions;
  /** The bridge that serves the target now. */
  bridge(): Bridge | undefined;
  status(): DaemonStatus;
  /** Gives the bridge more time, or less, if a person said --for again. */
  renew(until: string | undefined): void;
  /** Takes away from the target what these options take away; throws for keys that are not there. */
  narrow(narrower: Narrowing): Promise<void>;
  /** Keeps to what is stored for the target; why no key may be used, if that is so. */
  keepToStored(): Promise<BridgeError | undefined>;
  /** Attaches again now, and not after a pause. */
  retry(): void;
  end(why: string): void;
  state: DaemonState;
  held: HeldFiles;
  handover: Handover;
  log: LogCallback;
}

/** Who asks one of these may tell a person what the target may do. */
const TELLING: ReadonlySet<ControlRequest> = new Set(['status', 'check', 'ready']);

/** Does what a daemon is asked to over its control socket. */
export class ControlAnswers {
  readonly #daemon: ControlledDaemon;

  constructor(daemon: ControlledDaemon) {
    this.#daemon = daemon;
  }

  /** The answer to a request; `closed` resolves when the caller has gone, and `tell` says something more, later. */
  async answer(
    request: ControlRequest,
    argument: unknown,
    closed: Promise<void>,
    tell: (status: DaemonStatus) => void,
  ): Promise<unknown> {
    const { state, held, handover, bridge, status, end } = this.#daemon;
    if (request === 'confirm') return this.#confirm(argument as NamedTarget);
    if (request === 'up') return this.#up(argument as UpRequest);
    if (request === 'holds' && !(await bridge()?.holds(argument as SocketIdentity))) return undefined;
    held.checkPid();
    if (TELLING.has(request)) await this.#daemon.keepToStored();
    switch (request) {
      case 'check':
        return this.#check(argument as CheckRequest);
      case 'handover': {
        const inPlace = await handover.begin(closed);
        return { ...status(), inPlace };
      }
      case 'retire':
        // Whether it went for the caller or was told to end is known only then.
        void handover.retire(argument as RetireRequest, closed).then(() => tell(status()));
        break;
      case 'narrow': {
        const narrow = await this.#narrow(argument as Narrowing);
        return { ...status(), narrow };
      }
      case 'sync':
        return { ...status(), sync: await this.#sync() };
      case 'pause':
        this.#sayPause();
        break;
      case 'stop':
        setImmediate(() => end('it was asked to'));
        break;
      case 'ready':
        if (state.name === 'waiting-for-target') this.#daemon.retry(); // somebody wants it now
        if (state.name !== 'ready') await state.untilReady();
        break;
      default:
    }
    return status();
  }

  /** The status of a bridge to a target that a person named; checked, if they want nothing else of it. */
  async #confirm(named: NamedTarget): Promise<DaemonStatus | undefined> {
    const { held, target, options, bridge, renew } = this.#daemon;
    if (!(await mayBeNamed(named, this.#daemon.status))) return undefined;
    if (await this.#daemon.keepToStored()) return undefined; // who asks reads it, too, and says what is wrong
    const isNews = optionChanges(options(), mergedOptions(options(), named.options)).length > 0;
    const [isThisOne, status] = await Promise.all([
      isNamed(named, target),
      isNews ? this.#daemon.status() : this.#check({ mend: false }),
    ]);
    if (!isThisOne) return undefined;
    if (!isNews) renew(named.options.until);
    held.checkPid();
    if (isNews || (status.state !== 'broken' && !bridge()?.isIncomplete)) return status;
    return this.#check({ mend: true, takeover: named.options.takeover });
  }

  /** A control socket that another bridge's daemon holds does not count. */
  async #up(request: UpRequest): Promise<DaemonStatus | undefined> {
    const { held, status, answerUp } = this.#daemon;
    if (request.control !== held.files.control) return undefined;
    const up = await answerUp?.(request, (named) => this.#confirm(named));
    return up && { ...status(), up };
  }

  /** Looks at every socket in the target as a client there would, and mends what it finds if it is told to. */
  async #check({ mend, takeover = false, until }: CheckRequest): Promise<DaemonStatus> {
    const { state, log } = this.#daemon;
    this.#daemon.renew(until);
    const bridge = this.#daemon.bridge();
    const status = this.#daemon.status(); // without the check's own session
    if (state.name !== 'ready' || !bridge) return status;
    let report: CheckReport;
    try {
      report = await bridge.check(mend ? { takeover, log } : undefined);
    } catch (error) {
      if (bridge.isLost) return this.#daemon.status(); // while it was looked at
      throw error;
    }
    state.problems = report.problems;
    state.broken = report.broken;
    const { state: name, sockets, warnings, problems, working, failures } = this.#daemon.status();
    return { ...status, state: name, sockets, warnings, problems, working, failures, mended: report.mended };
  }

  async #narrow(narrower: Narrowing): Promise<NarrowAnswer> {
    try {
      await this.#daemon.narrow(narrower);
      return {};
    } catch (error) {
      return { error: toBridgeError(error, "can't narrow what the target may do").toJSON() };
    }
  }

  #sayPause(): void {
    const pause = currentPause();
    this.#daemon.log(pause ? `paused: no key is used ${pausedUntil(pause)}` : 'resumed', 'info');
  }

  async #sync(): Promise<SyncAnswer> {
    try {
      const bridge = this.#daemon.bridge();
      if (!bridge) throw notAttached(this.#daemon.target());
      return { synced: await bridge.syncKeys() };
    } catch (error) {
      return { error: toBridgeError(error, "can't synchronise public keys").toJSON() };
    }
  }
}

function notAttached(target: Target): BridgeError {
  return new BridgeError('TARGET_NOT_RUNNING', {
    what: `${target.name} can't be given public keys`,
    why: 'the bridge waits for it to come back',
    fix: 'Try again when it runs; a bridge that attaches again brings the keys by itself.',
  });
}
