import { printable } from '@gpg-bridge/core/text/escape';

/** Words of a command that is shown to be pasted: quoted for a shell, and nothing in them moves a terminal's cursor. */
export function pasteable(words: readonly string[]): string {
  return words.map((word) => shellQuote(printable(word, Number.POSITIVE_INFINITY))).join(' ');
}

/** A word as a POSIX shell takes it literally. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lines for a shell that export these. */
export function exportLines(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).map(([name, value]) => `export ${name}=${pasteable([value])}`);
}
