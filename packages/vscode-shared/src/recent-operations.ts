import { decodeError } from '@gpg-bridge/core/assuan/error-codes';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { purposeOf } from '@gpg-bridge/core/assuan/private-key-commands';
import { t } from './l10n.ts';

const KEPT = 50;

/** The last operations with private keys, newest first. */
export class RecentOperations {
  readonly #operations: Operation[] = [];

  /** Keeps an operation if it used a private key; returns whether it did. */
  add(operation: Operation): boolean {
    if (purposeOf(operation.command) === undefined) return false;
    this.#operations.unshift(operation);
    this.#operations.length = Math.min(this.#operations.length, KEPT);
    return true;
  }

  /** Newest first. */
  list(): readonly Operation[] {
    return this.#operations;
  }
}

/** What happened, in words: `a signature, done in 1.2 s`. */
export function describeOperation(operation: Operation): string {
  const { command, outcome, durationMs } = operation;
  const duration = durationMs < 1_000 ? t('{0} ms', durationMs) : t('{0} s', (durationMs / 1_000).toFixed(1));
  const purpose = t(purposeOf(command) ?? command);
  if (outcome === 'ok') return t('{0}, done in {1}', purpose, duration);
  return t('{0}, {1} after {2}', purpose, endingOf(operation), duration);
}

/** What a person did wrong, or what the card or the agent says, by libgpg-error's code. */
function endingOf({ outcome, errorCode }: Operation): string {
  if (outcome === 'cancelled') return t('cancelled by you');
  if (outcome === 'closed') return t('broken off');
  if (outcome === 'refused') return t('refused by GPG Bridge');
  const { code, text } = decodeError(errorCode ?? 0);
  switch (code) {
    case 11:
      return t('wrong passphrase');
    case 87:
      return t('wrong PIN');
    case 0:
      return t('refused by gpg-agent');
    default:
      return t('refused by gpg-agent ({0})', text);
  }
}
