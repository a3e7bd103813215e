import { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import type { Bridge } from '../bridge/bridge.ts';
import type { Journal } from '../bridge/journal.ts';
import { askDaemon, type RetireRequest } from './control.ts';
import type { DaemonState } from './daemon-state.ts';
import { toldToEnd } from './unless-ending.ts';

/** A bridge to the same target that goes when this one is there. */
export interface Predecessor {
  /** Its control socket, if that is not the one which this bridge is going to have. */
  control?: string | undefined;
  /** The types of the sockets that it holds in the target. */
  sockets: readonly SocketType[];
  /** The agents that can be used through it, and so through this one: without one of them this one fails. */
  keeps: readonly SocketType[];
  /** Whether it goes without finishing what is in flight. */
  now: boolean;
}

/**
 * This bridge works: the one before it, behind a control socket, finishes what is in flight and ends. Rejects if that
 * one was told to end meanwhile: whoever said so does not want this one either.
 */
export async function retirePredecessor(
  control: string,
  { now }: Pick<Predecessor, 'now'>,
  signal: AbortSignal,
): Promise<void> {
  const argument: RetireRequest = { now };
  const status = await askDaemon(control, 'retire', Number.POSITIVE_INFINITY, argument, { signal }).catch(
    (error: unknown) => {
      throw signal.aborted ? toldToEnd() : error; // nothing is wrong with the one that was asked
    },
  );
  if (status?.stopped) throw stoppedMeanwhile(status.target);
}

/** The error for a change of a bridge, or its start, when somebody ended it before that was made. */
export function stoppedMeanwhile(target: string, what: 'changed' | 'started' = 'changed'): BridgeError {
  return new BridgeError('BRIDGE_NOT_RUNNING', {
    what: `the bridge to ${target} was not ${what}`,
    why: 'it was told to end meanwhile',
    fix: 'Run `gpg-bridge up` again if you want it back.',
  });
}

/** What a daemon that is succeeded needs. */
export interface HandoverOptions {
  /** The bridge that serves the target now. */
  bridge(): Bridge | undefined;
  /** Resolves when an attempt to attach that is going on has come to a bridge, or to nothing. */
  untilAttached(): Promise<void>;
  state: DaemonState;
  journal: Journal;
  /** The daemon is ending. */
  signal: AbortSignal;
  /** Ends the daemon. */
  end(why: string): void;
}

/** Leaves a daemon's sockets to the one that succeeds it, and takes them back if that one gives up. */
export class Handover {
  readonly #options: HandoverOptions;
  readonly #ending: Promise<void>;
  #over: Promise<void> | undefined;

  constructor(options: HandoverOptions) {
    this.#options = options;
    this.#ending = untilAborted(options.signal);
  }

  /** Until then another bridge may take this one's place, and this one does not attach. */
  get over(): Promise<void> | undefined {
    return this.#over;
  }

  /**
   * Leaves the sockets to another bridge until that has taken this one's place, or its caller is gone; resolves to
   * the sockets whose paths lead to this one.
   */
  async begin(closed: Promise<void>): Promise<SocketType[]> {
    const { state } = this.#options;
    this.#over = Promise.race([closed, this.#ending]); // before anything else: no attempt to attach begins after it
    await Promise.race([this.#options.untilAttached(), this.#ending]);
    const bridge = this.#options.bridge();
    const inPlace = (await bridge?.inPlace()) ?? [];
    bridge?.pause();
    void closed.then(() => {
      if (state.name !== 'ending') this.#options.bridge()?.resume();
    });
    return inPlace;
  }

  /** Ends once nothing is in flight: another bridge has the sockets already. Goes on if that one gives up. */
  async retire({ now }: RetireRequest, closed: Promise<void>): Promise<void> {
    const { state, journal, signal, end, bridge } = this.#options;
    const before = state.name;
    state.enter('ending');
    const idle = now ? true : journal.untilIdle().then(() => true);
    const given = Promise.race([closed, this.#ending]).then(() => false);
    if (await Promise.race([idle, given])) {
      state.isSucceeded = true;
      end('another bridge has taken its place');
    } else if (!signal.aborted) {
      // One that was lost meanwhile is in the state for that.
      if (bridge() || before !== 'ready') state.enter(before);
      bridge()?.resume();
    }
  }
}

/** Resolves when the signal comes, or has come already. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
