import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { jsonLine, printable } from '@gpg-bridge/core/text/escape';
import { nearest } from '@gpg-bridge/core/text/nearest';
import { commandHelp, generalHelp } from './commands/help.ts';
import { isCommand, ownWords, parseCommand, usage } from './commands/parse.ts';
import { COMMANDS, type CommandName, type ParsedCommand } from './commands/specs.ts';

/** Runs one command and returns its exit status. */
type Run = (command: ParsedCommand) => Promise<number>;

/**
 * Each command's code, which is run when it is called. Only the large ones are bundles of their own (see
 * scripts/build.mjs): a small one would bring more with it a second time than it takes along.
 */
const RUNNERS: Readonly<Record<CommandName, () => Promise<{ run: Run }>>> = {
  up: () => import('./commands/up.ts'),
  down: () => import('./commands/down.ts'),
  status: () => import('./commands/status.ts'),
  pause: async () => ({ run: (await import('./commands/pause.ts')).pause }),
  resume: async () => ({ run: (await import('./commands/pause.ts')).resume }),
  log: () => import('./commands/log.ts'),
  exec: () => import('./commands/exec.ts'),
  shell: () => import('./commands/shell.ts'),
  auto: () => import('./commands/auto.ts'),
  keys: () => import('./commands/keys.ts'),
  env: () => import('./commands/env.ts'),
  doctor: () => import('./commands/doctor.ts'),
  demo: () => import('./commands/demo.ts'),
  completion: () => import('./commands/completion.ts'),
  serve: () => import('./commands/serve.ts'),
};

async function main(words: readonly string[], isAsked: boolean): Promise<number> {
  const [first, ...rest] = words;
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    const [about] = rest;
    const text = first === 'help' && about && isCommand(about) ? commandHelp(about) : generalHelp();
    process.stdout.write(`${text}\n`);
    return first === undefined ? 2 : 0;
  }
  if (!isCommand(first))
    throw usage(undefined, `there is no command '${first}'`, nearest(first, Object.keys(COMMANDS)));
  const command = parseCommand(first, rest);
  if (command.flags.help) {
    process.stdout.write(`${commandHelp(first)}\n`);
    return 0;
  }
  return (await RUNNERS[first]()).run({ ...command, isAsked });
}

function report(thrown: unknown, verbose: boolean, json: boolean): number {
  const error: BridgeError = toBridgeError(
    thrown,
    'something unforeseen happened',
    'Run it again with --verbose.',
  );
  if (json) process.stdout.write(`${jsonLine({ error: error.toJSON() })}\n`);
  process.stderr.write(`gpg-bridge: ${shown(error.message)}\n`);
  if (verbose) process.stderr.write(`${error.code}\n${shownLines(error.stack)}\n${shown(error.cause)}\n`);
  return error.exitStatus;
}

/** Anything as one line that a terminal does not obey: errors and their causes quote other programs. */
function shown(value: unknown): string {
  return printable(String(value ?? ''), Number.POSITIVE_INFINITY);
}

/** The same for text of several lines. */
function shownLines(text = ''): string {
  return text.split('\n').map(shown).join('\n');
}

/**
 * How long what a command began and does not wait for, such as a kubectl without an answer, may keep its process: more
 * than it takes to end a program that is slow to.
 */
const LINGER_MS = 3_000;

/**
 * Runs what a person asked for, and sets the exit status of this process. `isAsked`: the daemons were asked whether the
 * bridge is there, and at least one of them did not answer in time.
 */
export function start(words: readonly string[], isAsked = false): void {
  watchOutput();
  main(words, isAsked)
    .catch((error: unknown) => reportTo(words, error))
    .then((status) => {
      process.exitCode = status;
      setTimeout(() => process.stdout.write('', () => process.exit()), LINGER_MS).unref();
    });
}

/** Reports why what a person asked for can't begin, and sets the exit status of this process. */
export function fail(words: readonly string[], error: unknown): void {
  watchOutput();
  process.exitCode = reportTo(words, error);
}

function reportTo(words: readonly string[], error: unknown): number {
  const own = ownWords(words);
  return report(error, own.includes('--verbose'), own.includes('--json'));
}

function watchOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(); // the reader of a pipe may close it (`gpg-bridge log X | head`)
    process.stderr.write(`gpg-bridge: can't write to standard output: ${error.message}\n`);
    process.exit(1);
  });
  // A bridge in the foreground goes on when its standard error is closed.
  process.stderr.on('error', () => {});
}

/** Prints text, with what becomes of an output that can't be written to. */
export function print(text: Buffer): void {
  watchOutput();
  process.stdout.write(text);
}
