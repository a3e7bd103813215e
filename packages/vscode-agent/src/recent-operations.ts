import type { Operation, Outcome } from '@gpg-bridge/core/assuan/operation';
import { purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';

const KEPT = 50;

const ENDINGS: Readonly<Record<Outcome, string>> = {
  ok: 'done',
  error: 'refused by gpg-agent',
  cancelled: 'cancelled by you',
  closed: 'broken off',
  refused: 'refused by the bridge',
};

/** The last operations with private keys, newest first. */
export class RecentOperations {
  readonly #operations: Operation[] = [];

  /** Keeps an operation if it used a private key. */
  add(operation: Operation): void {
    if (purposeOf(operation.command) === undefined) return;
    this.#operations.unshift(operation);
    this.#operations.length = Math.min(this.#operations.length, KEPT);
  }

  /** Newest first. */
  list(): readonly Operation[] {
    return this.#operations;
  }
}

/** What happened, in words: `a signature, done in 1.2 s`. */
export function describeOperation(operation: Operation): string {
  const { command, outcome, durationMs } = operation;
  const duration = durationMs < 1_000 ? `${durationMs} ms` : `${(durationMs / 1_000).toFixed(1)} s`;
  const ending = outcome === 'ok' ? `${ENDINGS.ok} in ${duration}` : `${ENDINGS[outcome]} after ${duration}`;
  return `${purposeOf(command) ?? command}, ${ending}`;
}
