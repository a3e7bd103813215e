import type { LineHead } from './line-head.ts';

/** How an operation ended; `closed` when the connection did first, `refused` by the bridge itself. */
export type Outcome = 'ok' | 'error' | 'cancelled' | 'closed' | 'refused';

/** A command that has no final answer yet. */
export interface PendingOperation {
  /** The command word in capitals, or `?` when what was sent is none. */
  command: string;
  /** The keygrip it works with, where that is known. */
  key?: string;
  /** That of the second key, with which agents from 2.5 on decrypt at the same time. */
  another?: string;
  /** Milliseconds since the epoch at which its turn came. */
  startedAt: number;
}

/** One command and what became of it: facts for a log, never payload. */
export interface Operation extends PendingOperation {
  outcome: Outcome;
  /** `source << 24 | code` of an ERR. */
  errorCode?: number;
  durationMs: number;
  /** Why it was refused, or what its key can do apart from what the command is called. */
  note?: string;
}

/** An operation that has ended. Made for every command there is: copying what is pending takes ten times as long. */
export function finishedOperation(
  { command, key, another, startedAt }: PendingOperation,
  outcome: Outcome,
  durationMs: number,
  errorCode?: number,
): Operation {
  const finished: Operation = { command, startedAt, outcome, durationMs };
  if (key !== undefined) finished.key = key;
  if (another !== undefined) finished.another = another;
  if (errorCode !== undefined) finished.errorCode = errorCode;
  return finished;
}

/** Shown for a line that is no command, or of which too little could be remembered. */
export const UNKNOWN_COMMAND = '?';

/** Commands whose argument is a keygrip. All have six letters, which is the cheap first test. */
const NAMES_KEY: ReadonlySet<string> = new Set(['SIGKEY', 'SETKEY', 'PKAUTH']);
/** The length of these. */
export const NAMES_KEY_LENGTH = 6;
/** Commands that choose the key for those that follow. To gpg-agent the two are the same. */
const CHOOSES_KEY: ReadonlySet<string> = new Set(['SIGKEY', 'SETKEY']);

/** Whether a command, in capitals, has a keygrip as its argument. */
export function namesKey(command: string): boolean {
  return NAMES_KEY.has(command);
}

/** The keys that commands which use a private key work with. */
export type ChosenKeys = Pick<PendingOperation, 'key' | 'another'>;

/** Before any key was chosen. */
export const NO_KEYS: ChosenKeys = {};

/** The keys that are chosen after a command was carried out. */
export function chosenBy({ command, key, another }: PendingOperation, before: ChosenKeys): ChosenKeys {
  if (CHOOSES_KEY.has(command)) {
    if (another !== undefined) return { ...before, another };
    return key === undefined ? NO_KEYS : { ...before, key };
  }
  return command === 'RESET' || command === UNKNOWN_COMMAND ? NO_KEYS : before;
}

/** The first word in capitals, if it can be a command: payload that strayed here must not reach a log. */
export function commandWord(line: LineHead): string {
  const { word } = line;
  if (line.wordLength === 0 || line.wordLength > word.length) return UNKNOWN_COMMAND;
  for (let i = 0; i < word.length; i++) {
    const letter = word.charCodeAt(i) | 0x20;
    if ((letter < 0x61 || letter > 0x7a) && word[i] !== '_') return UNKNOWN_COMMAND;
  }
  return word.toUpperCase();
}

/** A keygrip at the start of an argument, as gpg-agent reads it: exactly 40 hex digits, then anything. */
export function keyNamedIn(argument: string): string | undefined {
  if (argument === '') return undefined;
  return /^[0-9A-Fa-f]{40}(?![0-9A-Fa-f])/.exec(argument)?.[0].toUpperCase();
}

const ANOTHER = /^--another[ \t]+/;

/** The key that the argument of a command names: the one to use, or the second one. */
export function keysNamedIn(argument: string): ChosenKeys {
  if (argument === '') return NO_KEYS;
  const isAnother = ANOTHER.test(argument);
  const grip = keyNamedIn(argument.replace(ANOTHER, ''));
  if (grip === undefined) return NO_KEYS;
  return isAnother ? { another: grip } : { key: grip };
}
