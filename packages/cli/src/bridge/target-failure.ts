import { BridgeError } from '@gpg-bridge/core/errors';
import { printable } from '@gpg-bridge/core/text/escape';
import type { Target } from '../targets/target.ts';

/** Why a target got no socket at all, or not the one that was asked for. */
export function noSockets(target: Target, [first, second]: readonly BridgeError[]): BridgeError {
  return new BridgeError('TARGET_ERROR', {
    what: `in ${target.name}: ${printable(first?.what ?? 'no socket was made')}`,
    why: oneLine([first?.why ?? '', ...(second ? [`${second.what}: ${second.why}`] : [])].join('; ')),
    fix: oneLine([...new Set([first?.fix, second?.fix, ...homeHint(first)])].filter(Boolean).join(' ')),
    cause: first,
  });
}

/** A user who can't write to the home that the target gives them can be given another. */
function homeHint(failure: BridgeError | undefined): string[] {
  return failure?.code === 'SOCKET_DIR_UNUSABLE' ? ['Or give that user a place with --home DIR.'] : [];
}

/** Words of a target, which may come from a program that printed several lines. */
function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*[\r\n]+\s*/g, '; '), 1_000);
}

/** A target that closed without a word in the protocol often said why on its standard error. */
export function inItsWords(error: BridgeError, lastWords: string): BridgeError {
  if (error.code !== 'TARGET_CLOSED' || !lastWords) return error;
  return new BridgeError(error.code, { what: error.what, why: lastWords, fix: error.fix, cause: error });
}
