import { DIGESTS } from './digests.ts';
import { CR, LF } from './line-head.ts';

const GRIP = '[0-9A-Fa-f]{40}';
const NO_ARGUMENTS = '';
/** Text without a blank or a control character; GnuPG escapes these, except DEL. */
const ESCAPED_TEXT = '[!-\\xff]+';

/** Any number of these arguments, in any order. */
function anyOf(...args: readonly string[]): string {
  const one = `(?:${args.join('|')})`;
  return `${one}(?: ${one})*`;
}

/** A digest of the right length, its algorithm by number or name. */
const HASHES = DIGESTS.map(
  ({ number, name, hexDigits }) => `(?:${number}|--hash=${name}) [0-9A-Fa-f]{${hexDigits}}`,
);

/**
 * What gpg, gpgsm and gpgme of GnuPG 2.2 to 2.5 send to the restricted socket: each command with the arguments that it
 * may have. An argument that names a descriptor, a file, a terminal or a variable is not listed. Nor are
 * - `PKDECRYPT --kem=CMS`: agents before 2.5.17 overflow a buffer on it;
 * - `SETHASH --inquire`, which only gpgsm sends, for a certificate request of an EdDSA key: it has any bytes signed;
 * - `KEYINFO --ssh-list`, which no client sends: agents of 2.4 write a file for it.
 */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  RESET: [NO_ARGUMENTS],
  BYE: [NO_ARGUMENTS],
  NOP: [NO_ARGUMENTS],
  HELP: [NO_ARGUMENTS, '[A-Za-z_]+'],
  // The only one that a restricted agent accepts. The bridge refuses all others itself, as such an agent does.
  OPTION: ['agent-awareness=[0-9.]+'],
  GETINFO: ['version', 'restricted', 'pid', 's2k_count', 'cmd_has_option [A-Za-z_]+ [a-z-]+'],
  HAVEKEY: [anyOf('--list(?:=[0-9]+)?', '--info', GRIP)],
  KEYINFO: [anyOf('--list', '--data', '--ttl', '--ssh-fpr(?:=[a-z0-9]+)?', GRIP)],
  READKEY: [anyOf('--no-data', '--format=ssh', '--', GRIP)],
  SIGKEY: [GRIP],
  // 2.5 decrypts with two keys at once.
  SETKEY: [GRIP, `--another ${GRIP}`],
  SETKEYDESC: [ESCAPED_TEXT],
  SETHASH: HASHES,
  PKSIGN: [NO_ARGUMENTS],
  PKDECRYPT: [NO_ARGUMENTS, '--kem=(?:PGP|PQC-PGP)'],
  ISTRUSTED: [GRIP],
  SCD: ['SERIALNO', 'GETATTR KEY-FPR', 'KEYINFO --list(?:=[a-z]+)?', 'GETINFO version'],
  GET_PASSPHRASE: [`(?:--[a-z-]*(?:=[0-9]+)? )*${ESCAPED_TEXT}(?: ${ESCAPED_TEXT}){0,3}`],
};

const PATTERNS: ReadonlyMap<string, RegExp> = new Map(
  Object.entries(ARGUMENTS).map(([word, args]) => [word, new RegExp(`^(?:${args.join('|')})$`)]),
);

/** A word, and what is behind one space after it. */
const COMMAND = /^([A-Za-z_]+)(?: (.+))?$/s;

/**
 * Whether a command line, with its line end, may reach gpg-agent. The case of the command word does not matter. There is
 * one space between two words, as clients send them: with more, the key that a line names could be overlooked.
 */
export function isAllowedCommand(line: Buffer): boolean {
  const [, word = '', args = ''] = COMMAND.exec(textOf(line)) ?? [];
  return PATTERNS.get(word.toUpperCase())?.test(args) ?? false;
}

/** The line a byte a character, without its LF or CR LF. */
function textOf(line: Buffer): string {
  const lf = line.at(-1) === LF ? line.length - 1 : line.length;
  return line.toString('latin1', 0, lf > 0 && line[lf - 1] === CR ? lf - 1 : lf);
}
