import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Person, type PersonOptions } from './cli.ts';
import { tempDir } from './temp.ts';
import { Terminal } from './terminal.ts';

/** The pinentries that ask in a terminal. */
export const TERMINAL_PINENTRIES = ['curses', 'tty'] as const;
export type TerminalPinentry = (typeof TERMINAL_PINENTRIES)[number];

/** No letter of it is in anything else that is typed. */
export const PASSPHRASE = '0123456789-98765432101234567890';

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

/**
 * Keeps every byte that it reads from the terminal, and signs when it reads a line from the fifo `$1/go`; `$2` is done
 * then, too.
 */
const RAW_RECORDER = `mkfifo "$1/go"; { read -r _ < "$1/go"; eval "$2"
  echo text | gpg --batch --no-tty --clear-sign > "$1/signed" 2> "$1/errors"; echo "$?" > "$1/done"; } &
stty -icanon -echo; echo it reads now; exec cat > "$1/received"`;

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

/** A command of this machine that keeps every byte that it reads from its terminal. */
export interface RawRecorder {
  terminal: Terminal;
  /** What it has read so far. */
  received(): Promise<string>;
  /** Has it use the key. */
  sign(): Promise<void>;
  /** Resolves to gpg's exit status when the use of the key is over for the command. */
  signed(): Promise<string>;
  /** Resolves to the exit status of `exec` when it has ended, what it printed on standard error, and the terminal's settings. */
  ended(): Promise<{ status: string; stderr: string; settings: string }>;
}

/**
 * A shell command by which a target keeps its terminal busy, and then asks it what it
 * is: tmux answers with its name, in which there is an `a`.
 */
export const QUERY_LATE = `n=0; while [ $n -lt 4000 ]; do printf '\\033#8\\033#8\\033#8'; n=$((n+1)); done > /dev/tty
  printf '\\033[>q\\033[>q\\033[>q\\033[2J\\033[H' > /dev/tty`;

/**
 * Starts such a command in a target of this machine; `before` is a shell command that it runs before it signs, `first` are the
 * words of a command of gpg-bridge that is run before it.
 */
export async function recordRaw(
  person: Person,
  words: string,
  before = ':',
  first = '--version',
): Promise<RawRecorder> {
  const terminal = await Terminal.of(person);
  await terminal.useForPinentry();
  // From here: a question of the bridge's shows in the terminal that the daemon was started in.
  await terminal.enter(`gpg-bridge ${first} > /dev/null; clear; echo it 'is' ready`, /^it is ready$/m);
  const directory = await tempDir();
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const command = `sh -c ${quoted(RAW_RECORDER)} sh ${directory} ${quoted(before)}`;
  const script = join(directory, 'begin');
  await writeFile(
    script,
    `gpg-bridge exec ${words} -- ${command} < /dev/tty 2> ${directory}/stderr; s=$?; stty -a > ${directory}/settings; echo $s > ${directory}/status\n`,
  );
  await terminal.enter(`. ${script}`, /^it reads now$/m);
  const read = (name: string) => readFile(join(directory, name), 'utf8').catch(() => '');
  const written = async (name: string) => {
    await expect.poll(() => read(name)).not.toBe('');
    return (await read(name)).trim();
  };
  return {
    terminal,
    received: () => read('received'),
    sign: () => writeFile(join(directory, 'go'), '\n'),
    signed: () => written('done'),
    ended: async () => ({
      status: await written('status'),
      stderr: await read('stderr'),
      settings: await read('settings'),
    }),
  };
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
