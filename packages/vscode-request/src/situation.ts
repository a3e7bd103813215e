import type { Operation } from '@gpg-bridge/core/assuan/operation';
import type { WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import { RecentOperations } from '@gpg-bridge/vscode-shared/recent-operations';
import type { Situation, Truth } from './status.ts';

/** Who is told of a window's situation. */
export interface SituationListeners {
  /** Something has changed. */
  onChange(situation: Situation): void;
  /** What is so for all windows, if this one holds the socket, has changed. */
  onOwnChange(): void;
}

/** What is so before anything is known. */
const NOTHING: Truth = { permission: 'undecided', sessions: 0, waiting: [], operations: [] };

/** The present situation of one window. */
export class CurrentSituation {
  readonly #listeners: SituationListeners;
  readonly #operations = new RecentOperations();
  #situation: Situation = {
    wanted: false,
    role: { is: 'out' },
    own: NOTHING,
  };

  constructor(listeners: SituationListeners) {
    this.#listeners = listeners;
  }

  /** All of it, as the status bar shows it. */
  get all(): Situation {
    return this.#situation;
  }

  /** What this window itself knows. */
  get own(): Truth {
    return this.#situation.own;
  }

  /** Changes it, and tells so. */
  update(change: Partial<Situation>): void {
    this.#situation = { ...this.#situation, ...change };
    this.#listeners.onChange(this.#situation);
  }

  /** Changes what this window itself knows, and tells so. */
  updateOwn(change: Partial<Truth>): void {
    this.update({ own: { ...this.#situation.own, ...change } });
    this.#listeners.onOwnChange();
  }

  /** Takes in what the window that holds the socket says is so; returns whether that was something. */
  hear(told: unknown): boolean {
    if (typeof told !== 'object' || told === null || !('permission' in told)) return false;
    this.update({ shared: { ...NOTHING, ...(told as Partial<Truth>) } });
    return true;
  }

  /** Counts an operation that waits for the person; the returned function counts it out again. */
  startWaiting(use: WaitingUse): () => void {
    this.updateOwn({ waiting: [...this.#situation.own.waiting, use] });
    return () => this.updateOwn({ waiting: this.#situation.own.waiting.filter((other) => other !== use) });
  }

  /** Remembers what the keys were used for; returns whether that was a private key. */
  addOperation(operation: Operation): boolean {
    if (!this.#operations.add(operation)) return false;
    this.updateOwn({ operations: [...this.#operations.list()] });
    return true;
  }
}
