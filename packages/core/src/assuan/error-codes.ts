/**
 * An error code as Assuan sends it, libgpg-error's layout:
 *
 *  31  30    24 23     16 15         0
 * +---+--------+---------+------------+
 * | 0 | source |    0    |    code    |
 * +---+--------+---------+------------+
 *
 * A code with bit 15 set is an errno of the system, in libgpg-error's own numbering.
 */
const SOURCE_SHIFT = 24;
const SOURCE_MASK = 0x7f;
const CODE_MASK = 0xffff;

/** The codes that the bridge itself acts on. */
export const GPG_ERROR = {
  NO_SECKEY: 17,
  NOT_FOUND: 27,
  TIMEOUT: 62,
  NO_AGENT: 77,
  CANCELED: 99,
  NOT_CONFIRMED: 114,
  NOT_OPERATIONAL: 176,
  FULLY_CANCELED: 198,
  UNKNOWN_OPTION: 174,
  ASSUAN_SYNTAX: 276,
  ASSUAN_CANCELED: 277,
  ASSUAN_PARAMETER: 280,
  LIMIT_REACHED: 183,
  FORBIDDEN: 251,
} as const;

/** The parts of an error code, in libgpg-error's own words. */
export interface DecodedError {
  source: number;
  sourceName: string;
  code: number;
  text: string;
}

/** Takes `source << 24 | code` apart. */
export function decodeError(value: number): DecodedError {
  const source = (value >>> SOURCE_SHIFT) & SOURCE_MASK;
  const code = value & CODE_MASK;
  return {
    source,
    sourceName: SOURCES[source] ?? 'Unknown source',
    code,
    text: TEXTS[code] ?? `Unknown error code ${code}`,
  };
}

/** An error code as gpg-agent would word it, e.g. `Forbidden <GPG Agent>`. */
export function describeError(value: number): string {
  const { text, sourceName } = decodeError(value);
  return `${text} <${sourceName}>`;
}

/** The number in a line `ERR <number> …`, or undefined when the line is no such thing. */
export function errorValueOf(line: Buffer | string): number | undefined {
  const text = typeof line === 'string' ? line : line.toString('latin1', 0, 16);
  const digits = /^ERR +(\d{1,10})(?!\d)/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

const CANCELLATIONS: ReadonlySet<number> = new Set([
  GPG_ERROR.CANCELED,
  GPG_ERROR.FULLY_CANCELED,
  GPG_ERROR.ASSUAN_CANCELED,
]);

/** Whether an error says that a person (or the client's CAN) called the operation off. */
export function isCancellation(value: number): boolean {
  return CANCELLATIONS.has(value & CODE_MASK);
}

/** What a person would call an error that has to do with them or their keys. */
export type FailureKind = 'timeout' | 'wrong-passphrase' | 'refused' | 'no-secret-key';

const KINDS: Readonly<Partial<Record<number, FailureKind>>> = {
  11: 'wrong-passphrase',
  17: 'no-secret-key',
  31: 'wrong-passphrase',
  62: 'timeout',
  87: 'wrong-passphrase',
  114: 'refused',
  251: 'refused',
};

/** Tells apart why an agent did not do what it was asked; undefined for what no person had a part in. */
export function failureKind(value: number): FailureKind | undefined {
  return KINDS[value & CODE_MASK];
}

const SOURCES: Readonly<Record<number, string>> = {
  0: 'Unspecified source',
  1: 'gcrypt',
  2: 'GnuPG',
  3: 'GpgSM',
  4: 'GPG Agent',
  5: 'Pinentry',
  6: 'SCD',
  7: 'GPGME',
  8: 'Keybox',
  9: 'KSBA',
  10: 'Dirmngr',
  11: 'GSTI',
  12: 'GPA',
  13: 'Kleopatra',
  14: 'G13',
  15: 'Assuan',
  16: 'TPM2d',
  17: 'TLS',
  31: 'Any source',
};

const TEXTS: Readonly<Record<number, string>> = {
  0: 'Success',
  1: 'General error',
  4: 'Invalid public key algorithm',
  5: 'Invalid digest algorithm',
  6: 'Bad public key',
  7: 'Bad secret key',
  8: 'Bad signature',
  9: 'No public key',
  10: 'Checksum error',
  11: 'Bad passphrase',
  17: 'No secret key',
  18: 'Wrong secret key used',
  26: 'No value',
  27: 'Not found',
  31: 'Invalid passphrase',
  33: 'Resources exhausted',
  38: 'Unexpected error',
  41: 'Wrong public key algorithm',
  53: 'Unusable public key',
  54: 'Unusable secret key',
  55: 'Invalid value',
  58: 'No data',
  60: 'Not supported',
  61: 'Invalid operation code',
  62: 'Timeout',
  63: 'Internal error',
  66: 'Provided object is too short',
  67: 'Provided object is too large',
  69: 'Not implemented',
  70: 'Conflicting use',
  77: 'No agent running',
  78: 'Agent error',
  79: 'Invalid data',
  80: 'Unspecific Assuan server fault',
  81: 'General Assuan error',
  83: 'Invalid S-expression',
  84: 'Unsupported algorithm',
  85: 'No pinentry',
  86: 'pinentry error',
  87: 'Bad PIN',
  98: 'Not trusted',
  99: 'Operation cancelled',
  108: 'Card error',
  110: 'Card removed',
  111: 'Invalid card',
  112: 'Card not present',
  114: 'Not confirmed',
  115: 'Configuration error',
  119: 'No SmartCard daemon',
  125: 'Wrong key usage',
  131: 'Conditions of use not satisfied',
  174: 'Unknown option',
  176: 'Not operational',
  177: 'No passphrase given',
  178: 'No PIN given',
  188: 'Unknown elliptic curve',
  198: 'Operation fully cancelled',
  224: 'Request too long',
  183: 'Limit reached',
  251: 'Forbidden',
  252: 'Key disabled',
  253: 'Not possible with a card based key',
  257: 'General IPC error',
  258: 'IPC accept call failed',
  259: 'IPC connect call failed',
  260: 'Invalid IPC response',
  261: 'Invalid value passed to IPC',
  262: 'Incomplete line passed to IPC',
  263: 'Line passed to IPC too long',
  270: 'IPC read error',
  271: 'IPC write error',
  272: 'Unknown error code',
  273: 'Too much data for IPC layer',
  274: 'Unexpected IPC command',
  275: 'Unknown IPC command',
  276: 'IPC syntax error',
  277: 'IPC call has been cancelled',
  278: 'No input source for IPC',
  279: 'No output source for IPC',
  280: 'IPC parameter error',
  281: 'Unknown IPC inquire',
  16383: 'End of file',
  32769: 'Permission denied',
  32770: 'Address already in use',
  32774: 'Resource temporarily unavailable',
  32779: 'Bad file descriptor',
  32793: 'Connection refused',
  32794: 'Connection reset by peer',
  32803: 'File exists',
  32815: 'Interrupted system call',
  32816: 'Invalid argument',
  32833: 'Too many open files',
  32849: 'No such file or directory',
  32854: 'Cannot allocate memory',
  32870: 'Inappropriate ioctl for device',
  32875: 'Operation not permitted',
  32877: 'Broken pipe',
  32900: 'Connection timed out',
};
