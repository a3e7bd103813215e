import { shellQuote } from './shell-quote.ts';

/** Bytes of one word: some versions of csh allow 1,024. */
const MAX_WORD = 900;

/**
 * A command as a line for whatever shell somebody logs in with. A script in quotes is no such thing: csh takes a line
 * end in quotes for a mistake and `!` for its history, and fish takes backslashes in quotes. So the script travels as a
 * format of printf, in which all of these are octal, and sh makes it what it was.
 */
export function loginShellCommand(argv: readonly string[]): string {
  const script = Buffer.from(argv.map(shellQuote).join(' '));
  const words: string[] = [''];
  for (const byte of script) {
    const letter = isPlain(byte) ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`;
    if (words.at(-1)!.length + letter.length > MAX_WORD) words.push('');
    words[words.length - 1] += letter;
  }
  return `exec sh -c 'IFS=;x=$(printf "$*");unset IFS;eval "exec $x"' sh ${words.map((word) => `'${word}'`).join(' ')}`;
}

/** Whether a byte means itself in single quotes of every shell, and to printf. */
function isPlain(byte: number): boolean {
  return byte >= 0x20 && byte < 0x7f && !`'!\\%`.includes(String.fromCharCode(byte));
}
