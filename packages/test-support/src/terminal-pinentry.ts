import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Person, type PersonOptions } from './cli.ts';
import { tempDir } from './temp.ts';
import { Terminal } from './terminal.ts';

/** The pinentries that ask in a terminal. */
export const TERMINAL_PINENTRIES = ['curses', 'tty'] as const;
export type TerminalPinentry = (typeof TERMINAL_PINENTRIES)[number];

/** No letter of it is in anything else that is typed. */
const PASSPHRASE = '0123456789-98765432101234567890';

/** What a passphrase is typed like: all of it at once, or key by key. */
export const WAYS_TO_TYPE = ['pasted', 'typed key by key'] as const;
export type WayToType = (typeof WAYS_TO_TYPE)[number];

/**
 * Keeps every line that it reads from the terminal, and signs beside that when it is told to, so that two want what is
 * typed then. `$1` is a directory.
 */
const RECORDER = `echo it reads now; while IFS= read -r line; do
  printf '%s\\n' "$line" >> "$1/received"
  case $line in
    sign) { echo text | gpg --batch --no-tty --clear-sign > "$1/signed" 2> "$1/errors"; echo "signed: $?"; } & ;;
    *end) wait; exit 7 ;;
  esac
done`;

/** gpg-agent.conf for a pinentry that is asked every time. */
export function agentConfFor(pinentry: TerminalPinentry): string {
  return `pinentry-program /usr/bin/pinentry-${pinentry}\ndefault-cache-ttl 0\nmax-cache-ttl 0\ns2k-count 65536\n`;
}

/** A person whose only key has a passphrase, for which a pinentry asks in a terminal. */
export async function personWithPassphrase(
  pinentry: TerminalPinentry,
  options: PersonOptions = {},
): Promise<Person> {
  const person = await Person.create({ ...options, key: false, agentConf: agentConfFor(pinentry) });
  await addProtectedKey(person);
  return person;
}

/** Gives a person a key with that passphrase. */
export async function addProtectedKey(person: Person): Promise<void> {
  person.fingerprint = await person.home.createKey('Ada Test <ada@example.org>', { passphrase: PASSPHRASE });
}

/** Answers a pinentry that asks in a terminal. */
export async function answerPinentry(terminal: Terminal, way: WayToType): Promise<void> {
  await terminal.shows(/Passphrase:/);
  if (way === 'pasted') await terminal.type(PASSPHRASE);
  else for (const character of PASSPHRASE) await terminal.type(character);
  await terminal.press('Enter');
}

/** Signs in a shell in which a pinentry asks. */
export async function signAsked(terminal: Terminal): Promise<void> {
  await terminal.type("echo text | gpg --batch --clear-sign > /dev/null && echo it 'is' signed");
  await terminal.press('Enter');
  await answerPinentry(terminal, 'pasted');
  await terminal.shows(/it is signed\n/);
}

/**
 * Signs in a target while a program there reads from the terminal, and answers the pinentry in that terminal; returns
 * all that the program has read. `directory` is one in the target; `read` reads a file there; `before` are words before those of the program.
 */
export async function recordTyped(
  person: Person,
  words: string,
  way: WayToType,
  directory: string,
  read: (path: string) => Promise<string>,
  before = '',
): Promise<string> {
  const terminal = await Terminal.of(person);
  await terminal.useForPinentry();
  const script = join(await tempDir(), 'begin');
  const command = `${before} sh -c '${RECORDER.replaceAll("'", `'\\''`)}' sh ${directory}`;
  await writeFile(script, `gpg-bridge exec ${words} -- ${command}; echo status: $?\n`);
  await terminal.type(`. ${script}`);
  await terminal.press('Enter');
  await terminal.shows(/^it reads now$/m); // the shell does not echo what is typed before
  await terminal.enter('before', /^before$/m);
  await expect.poll(() => read(`${directory}/received`).catch(() => '')).toBe('before\n');
  await terminal.type('sign');
  await terminal.press('Enter');
  await answerPinentry(terminal, way);
  await terminal.shows(/signed: 0/);
  await terminal.enter('end', /status: 7/);
  expect(await read(`${directory}/signed`)).toContain('BEGIN PGP SIGNATURE');
  return read(`${directory}/received`);
}
