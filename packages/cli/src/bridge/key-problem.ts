import type { BridgeError } from '@gpg-bridge/core/errors';
import { printable } from '@gpg-bridge/core/text/escape';

/** In everything that is said about keys that a target lacks. */
const KEYS = "the host's public keys";
/** A message about a target, which may quote it. */
const MAX_MESSAGE = 1_000;

/** What is said while an import takes longer than anybody waits for it. */
export const STILL_IMPORTING = `${KEYS} are still being imported there`;

/** Why a target lacks public keys, in words for a person. */
export function keyProblem({ message }: BridgeError): string {
  return printable(message.includes(KEYS) ? message : `can't import ${KEYS}: ${message}`, MAX_MESSAGE);
}
