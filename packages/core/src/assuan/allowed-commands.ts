import { CR, LF } from './line-head.ts';

const BLANKS = '[ \\t]+';
const GRIP = '[0-9A-Fa-f]{40}';
const NO_ARGUMENTS = '';
/** Text without a blank or a control character; GnuPG escapes these. */
const ESCAPED_TEXT = '[!-~\\x80-\\xff]+';

/** Any number of these arguments, in any order. */
function anyOf(...args: readonly string[]): string {
  const one = `(?:${args.join('|')})`;
  return `${one}(?:${BLANKS}${one})*`;
}

/** The digests that GnuPG signs: OpenPGP's numbers, or names. MD5 and unhashed data are not among them. */
const HASH = '(?:2|3|8|9|10|11|--hash=(?:sha1|rmd160|sha224|sha256|sha384|sha512))';

/**
 * What gpg, gpgsm and gpgme of GnuPG 2.2 to 2.5 send to the restricted socket: each command with the arguments that it
 * may have. An argument that names a descriptor, a file, a terminal or a variable is not listed. `--kem=CMS` is left
 * out because agents before 2.5.17 overflow a buffer on it.
 */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  RESET: [NO_ARGUMENTS],
  BYE: [NO_ARGUMENTS],
  NOP: [NO_ARGUMENTS],
  HELP: [NO_ARGUMENTS, '[A-Za-z_]+'],
  // The only one that a restricted agent accepts. The bridge refuses all others itself, as such an agent does.
  OPTION: ['agent-awareness=[0-9.]+'],
  GETINFO: ['version', 'restricted', 'pid', 's2k_count', `cmd_has_option${BLANKS}[A-Za-z_]+${BLANKS}[a-z-]+`],
  HAVEKEY: [anyOf('--list(?:=[0-9]+)?', '--info', GRIP)],
  KEYINFO: [anyOf('--list', '--ssh-list', '--data', '--ttl', '--ssh-fpr(?:=[a-z0-9]+)?', GRIP)],
  READKEY: [anyOf('--no-data', '--format=ssh', '--', GRIP)],
  SIGKEY: [GRIP],
  // 2.5 decrypts with two keys at once.
  SETKEY: [GRIP, `--another${BLANKS}${GRIP}`],
  SETKEYDESC: [ESCAPED_TEXT],
  SETHASH: [`${HASH}${BLANKS}(?:[0-9A-Fa-f]{2})+`, '--inquire'],
  PKSIGN: [NO_ARGUMENTS],
  PKDECRYPT: [NO_ARGUMENTS, '--kem=(?:PGP|PQC-PGP)'],
  ISTRUSTED: [GRIP],
  SCD: [
    'SERIALNO',
    `GETATTR${BLANKS}KEY-FPR`,
    `KEYINFO${BLANKS}--list(?:=[a-z]+)?`,
    `GETINFO${BLANKS}version`,
  ],
  GET_PASSPHRASE: [`(?:--[a-z-]*(?:=[0-9]+)?${BLANKS})*${ESCAPED_TEXT}(?:${BLANKS}${ESCAPED_TEXT}){0,3}`],
};

const PATTERNS: ReadonlyMap<string, RegExp> = new Map(
  Object.entries(ARGUMENTS).map(([word, args]) => [word, new RegExp(`^(?:${args.join('|')})$`)]),
);

/** A word, and what is behind the blanks after it, without those at the end of the line. */
const COMMAND = /^([A-Za-z_]+)(?:[ \t]+([^ \t].*?)?)?[ \t]*$/s;

/** Whether a command line, with its line end, may reach gpg-agent; the case of the command word does not matter. */
export function isAllowedCommand(line: Buffer): boolean {
  const [, word = '', args = ''] = COMMAND.exec(textOf(line)) ?? [];
  return PATTERNS.get(word.toUpperCase())?.test(args) ?? false;
}

/** The line a byte a character, without its LF or CR LF. */
function textOf(line: Buffer): string {
  const lf = line.at(-1) === LF ? line.length - 1 : line.length;
  return line.toString('latin1', 0, lf > 0 && line[lf - 1] === CR ? lf - 1 : lf);
}
