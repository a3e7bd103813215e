import { printable } from './text/escape.ts';

/**
 * Every error a person can meet. The code is stable: scripts and the other end of a carrier match on
 * it, never on the words. `exit` is the command line's exit status for it.
 */
const ERROR_CODES = {
  // wrong usage
  USAGE: { exit: 2 },
  INTERNAL: { exit: 1 },
  DISK_FULL: { exit: 1 },
  // Assuan
  LINE_TOO_LONG: { exit: 1 },
  BLOCK_TOO_LARGE: { exit: 1 },
  BAD_INQUIRY_DATA: { exit: 1 },
  BLOCK_INCOMPLETE: { exit: 1 },
  BAD_GREETING: { exit: 1 },
  BAD_RESPONSE: { exit: 1 },
  // host end
  GPGCONF_MISSING: { exit: 4 },
  GPGCONF_FAILED: { exit: 4 },
  GPG_MISSING: { exit: 4 },
  AGENT_SOCKET_MISSING: { exit: 4 },
  AGENT_SOCKET_FILE_MALFORMED: { exit: 4 },
  AGENT_UNREACHABLE: { exit: 4 },
  AGENT_CONNECT_TIMEOUT: { exit: 4 },
  AGENT_GREETING_TIMEOUT: { exit: 4 },
  AGENT_RESPONSE_TIMEOUT: { exit: 4 },
  AGENT_NONCE_REFUSED: { exit: 4 },
  AGENT_NOT_RESTRICTED: { exit: 4 },
  AGENT_CLOSED: { exit: 1 },
  AGENT_OUT_OF_TURN: { exit: 1 },
  SSH_AGENT_MISSING: { exit: 4 },
  SSH_KEY_UNKNOWN: { exit: 1 },
  SSH_PROTOCOL: { exit: 1 },
  NO_HOST_AGENT: { exit: 4 },
  GPG_KEY_UNKNOWN: { exit: 1 },
  RECORD_FULL: { exit: 1 },
  NOT_CONFIRMED: { exit: 1 },
  PAUSED: { exit: 1 },
  TIME_OVER: { exit: 1 },
  NOT_GRANTED: { exit: 1 },
  TERMINAL_LOST: { exit: 1 },
  KEY_EXPORT_FAILED: { exit: 1 },
  // sessions
  SESSION_UNKNOWN: { exit: 1 },
  SESSION_LIMIT: { exit: 1 },
  SESSION_NOT_READY: { exit: 1 },
  SESSION_ENDED: { exit: 1 },
  IMPOSSIBLE_TRANSITION: { exit: 1 },
  CARRIER_FAILED: { exit: 1 },
  // target end
  SOCKET_PATH_TOO_LONG: { exit: 1 },
  SOCKET_PATH_FOREIGN_FILE: { exit: 1 },
  SOCKET_HELD_BY_FORWARD: { exit: 1 },
  SOCKET_IS_HOST_AGENT: { exit: 1 },
  SOCKET_DIR_UNUSABLE: { exit: 1 },
  OWN_AGENT_WONT_STOP: { exit: 1 },
  KEY_IMPORT_FAILED: { exit: 1 },
  // wire protocol
  FRAME_LENGTH: { exit: 1 },
  STREAM_IN_USE: { exit: 1 },
  NOT_A_BRIDGE: { exit: 1 },
  TARGET_ERROR: { exit: 1 },
  TARGET_CLOSED: { exit: 1 },
  LINE_SILENT: { exit: 1 },
  // targets and daemons
  TARGET_NOT_FOUND: { exit: 3 },
  TARGET_NOT_RUNNING: { exit: 3 },
  ENGINE_UNREACHABLE: { exit: 3 },
  ENGINE_FAILED: { exit: 1 },
  TARGET_NO_RUNTIME: { exit: 5 },
  DAEMON_FAILED: { exit: 1 },
  BRIDGE_EXISTS: { exit: 1 },
  DEMO_FAILED: { exit: 1 },
  BRIDGE_NOT_RUNNING: { exit: 1 },
  BRIDGE_BROKEN: { exit: 1 },
  STATE_DIR_UNUSABLE: { exit: 1 },
  GRANT_UNREADABLE: { exit: 1 },
  RULES_UNREADABLE: { exit: 1 },
  RULE_UNKNOWN: { exit: 1 },
  NOTHING_WAITS: { exit: 1 },
  AUTO_RUNNING: { exit: 1 },
  SERVICE_FAILED: { exit: 1 },
  // consent
  CONSENT_DENIED: { exit: 1 },
  CONSENT_REQUIRED: { exit: 1 },
  SETTING_REFUSED: { exit: 1 },
  SETTING_UNCONFIRMED: { exit: 1 },
  NO_PRIVATE_KEYS: { exit: 1 },
  HOST_TURNED_OFF: { exit: 1 },
  VERSION_MISMATCH: { exit: 1 },
  HOST_EXTENSION_MISSING: { exit: 1 },
} as const satisfies Record<string, { exit: number }>;

/** The stable name of an error. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** What the machine is short of: whatever was tried, that is the reason, and the only thing to mend. */
const SHORTAGES: Partial<Record<string, { why: string; fix: string }>> = {
  EMFILE: { why: 'too many files are open', fix: 'Raise the limit (`ulimit -n`), and try again.' },
  ENFILE: { why: 'the machine has too many files open', fix: 'End some programs, and try again.' },
  ENOSPC: { why: 'the disk is full', fix: 'Make room there, and try again.' },
  EDQUOT: { why: 'your share of the disk is full', fix: 'Make room there, and try again.' },
  EROFS: { why: 'the file system is read-only', fix: 'Make it writable, and try again.' },
};

/** Characters of a part of an error: what another program says can have any length. */
const MAX_PART = 2_000;

/** What failed, why, and what the person can do about it. */
export interface ErrorFacts {
  what: string;
  why: string;
  fix: string;
  cause?: unknown;
}

/** An error with a stable code, a cause and a next step; its message is `WHAT: WHY. DO THIS`. */
export class BridgeError extends Error {
  override readonly name = 'BridgeError';
  readonly what: string;
  readonly why: string;
  readonly fix: string;

  constructor(
    readonly code: ErrorCode,
    facts: ErrorFacts,
  ) {
    // A part may quote a target, an engine or another program: nothing in it may move a terminal's cursor.
    const { cause } = facts;
    const what = oneLine(facts.what);
    const system = cause as NodeJS.ErrnoException | undefined;
    const shortage = SHORTAGES[system?.code ?? ''];
    // A reason is often another program's sentence, which brings its own full stop.
    const reason = shortage
      ? `${shortage.why} (${system?.message})`
      : facts.why.slice(0, 2 * MAX_PART).replace(/[\s.]+$/, '');
    const why = oneLine(reason);
    const fix = oneLine(shortage?.fix ?? facts.fix);
    const end = /[?!]$/.test(why) ? '' : '.'; // other programs ask and exclaim
    super(`${what}: ${why}${end} ${fix}`, cause === undefined ? undefined : { cause });
    this.what = what;
    this.why = why;
    this.fix = fix;
  }

  /** By what it carries: the command's bundles, and programs that use the library, have a class of their own. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    const { name, code } = (value ?? {}) as Partial<BridgeError>;
    return value instanceof Object && name === 'BridgeError' && Object.hasOwn(ERROR_CODES, code ?? '');
  }

  /** The command line's exit status for this error. */
  get exitStatus(): number {
    return ERROR_CODES[this.code].exit;
  }

  /** Plain data for a carrier or a control socket, which keep no prototypes; undone by `fromJSON`. */
  toJSON(): { code: ErrorCode; what: string; why: string; fix: string } {
    return { code: this.code, what: this.what, why: this.why, fix: this.fix };
  }

  /** The error that `toJSON` described on the other side; anything unfit becomes INTERNAL. */
  static fromJSON(value: unknown): BridgeError {
    const { code, what, why, fix } = (value ?? {}) as Partial<Record<string, unknown>>;
    const known = typeof code === 'string' && Object.hasOwn(ERROR_CODES, code);
    return new BridgeError(known ? (code as ErrorCode) : 'INTERNAL', {
      what: typeof what === 'string' ? what : 'the other side failed',
      why: typeof why === 'string' ? why : 'it gave no reason',
      fix: typeof fix === 'string' ? fix : 'See the log for details.',
    });
  }
}

/** A part of an error, on one line, without anything that a terminal would obey. */
function oneLine(text: string): string {
  // Cut first: what follows looks at a run of blanks again from each of them.
  return printable(text.slice(0, 2 * MAX_PART).replace(/\s*[\r\n]+\s*/g, ' '), MAX_PART);
}

/** Any thrown value as a BridgeError, keeping the original as its cause. */
export function toBridgeError(error: unknown, what: string, fix = 'See the log for details.'): BridgeError {
  if (error instanceof BridgeError) return error;
  const full = diskFull(error, what);
  if (full) return full;
  return new BridgeError('INTERNAL', {
    what,
    why: error instanceof Error ? error.message : String(error),
    fix,
    cause: error,
  });
}

/** The error for a full disk or a used-up quota, whatever could not be written; undefined for any other. */
export function diskFull(error: unknown, what: string): BridgeError | undefined {
  const { code, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return undefined;
  return new BridgeError('DISK_FULL', {
    what,
    why: `${code === 'ENOSPC' ? 'the disk is full' : 'your quota is used up'} (${code}${path ? `, ${path}` : ''})`,
    fix: 'Make room there, and try again.',
    cause: error,
  });
}
