import { once } from 'node:events';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import type { Bridge } from '../bridge/bridge.ts';
import type { Journal } from '../bridge/journal.ts';
import { askDaemon, type RetireRequest } from './control.ts';
import type { DaemonState } from './daemon-state.ts';

/** A bridge to the same target that goes when this one is there. */
export interface Predecessor {
  /** Its control socket, if that is not the one which this bridge is going to have. */
  control?: string | undefined;
  /** The types of the sockets that it holds in the target. */
  sockets: readonly SocketType[];
  /** Whether it goes without finishing what is in flight. */
  now: boolean;
}

/** This bridge works: the one before it, behind a control socket, finishes what is in flight and ends. */
export async function retirePredecessor(
  control: string,
  { now }: Predecessor,
  signal: AbortSignal,
): Promise<void> {
  const argument: RetireRequest = { now };
  await askDaemon(control, 'retire', Number.POSITIVE_INFINITY, argument, { signal });
}

/** What a daemon that is succeeded needs. */
export interface HandoverOptions {
  /** The bridge that serves the target now. */
  bridge(): Bridge | undefined;
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
  #over: Promise<void> | undefined;

  constructor(options: HandoverOptions) {
    this.#options = options;
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
    const { state, signal } = this.#options;
    const bridge = this.#options.bridge();
    const inPlace = (await bridge?.inPlace()) ?? [];
    bridge?.pause();
    void closed.then(() => {
      if (state.name !== 'ending') this.#options.bridge()?.resume();
    });
    this.#over = Promise.race([closed, once(signal, 'abort').then(() => {})]);
    return inPlace;
  }

  /** Ends once nothing is in flight: another bridge has the sockets already. Goes on if that one gives up. */
  async retire({ now }: RetireRequest, closed: Promise<void>): Promise<void> {
    const { state, journal, signal, end, bridge } = this.#options;
    const before = state.name;
    state.enter('ending');
    const idle = now ? true : journal.untilIdle().then(() => true);
    if (await Promise.race([idle, closed.then(() => false)])) end('another bridge has taken its place');
    else if (!signal.aborted) {
      // One that was lost meanwhile is in the state for that.
      if (bridge() || before !== 'ready') state.enter(before);
      bridge()?.resume();
    }
  }
}
