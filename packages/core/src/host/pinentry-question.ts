import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { Duplex } from 'node:stream';
import { ask } from '../assuan/ask.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { decodeError, errorValueOf, GPG_ERROR } from '../assuan/error-codes.ts';

/** A question with two or three buttons. */
export interface PinentryQuestion {
  description: string;
  ok: string;
  cancel: string;
  /** The third button; only some pinentries have one (`PinentryAbilities`). */
  other?: string | undefined;
  /** Yes is a number that has to be typed, and not a key (`PinentryAbilities`). */
  byNumber?: boolean | undefined;
}

/** What a pinentry can do. */
export interface PinentryAbilities {
  /** It has a third button whose answer can be believed. */
  hasThirdButton: boolean;
  /** It takes single keys for answers, also those that a terminal sends by itself. */
  takesKeys: boolean;
}

/** How a pinentry is run. */
export interface PinentryOptions {
  env: NodeJS.ProcessEnv;
  /** Takes the question back. */
  signal?: AbortSignal | undefined;
}

/** What a person can answer; closing the window and waiting too long are `cancel`. */
export type PinentryAnswer = 'ok' | 'other' | 'cancel';

/** How long a question stays. */
const TIMEOUT_S = 120;
/** A pinentry that has not answered by then never will. */
const GIVE_UP_MS = (TIMEOUT_S + 10) * 1_000;
const QUICK_MS = 5_000;
/**
 * Those that tell the third button from Cancel. pinentry-gnome3 has two buttons whatever it is told, and of others
 * it is not known that "not confirmed" can't mean a closed window.
 */
const THIRD_BUTTON = /^(?:curses|gtk2|qt[456]?)(?::|$)/;

const TAKES_KEYS = /^tty(?::|$)/;
const SMALLEST_NUMBER = 100;
const NUMBERS_END = 1_000;

/** Finds out what a pinentry can do. */
export async function pinentryAbilities(
  program: string,
  options: PinentryOptions,
): Promise<PinentryAbilities> {
  const [answer] = await converse(program, ['GETINFO flavor'], QUICK_MS, options);
  const flavor = /^D (.*)/m.exec(String(answer?.bytes))?.[1] ?? '';
  return { hasThirdButton: THIRD_BUTTON.test(flavor), takesKeys: TAKES_KEYS.test(flavor) };
}

/** Asks the person at the host. Rejects if the question can't be shown. */
export async function askPinentry(
  program: string,
  { description, ok, cancel, other, byNumber }: PinentryQuestion,
  options: PinentryOptions,
): Promise<PinentryAnswer> {
  const { GPG_TTY, TERM, LC_CTYPE, LC_ALL, LANG } = options.env;
  const locale = LC_ALL || LC_CTYPE || LANG;
  const number = String(randomInt(SMALLEST_NUMBER, NUMBERS_END));
  const asked = byNumber ? `${description}\n${ok}: type ${number}. ${cancel}: type nothing.` : description;
  const commands = [
    // A pinentry does not have to know an option, and then says so.
    ...(GPG_TTY ? [`OPTION ttyname=${escaped(GPG_TTY)}`, `OPTION ttytype=${escaped(TERM ?? 'dumb')}`] : []),
    ...(locale ? [`OPTION lc-ctype=${escaped(locale)}`] : []),
    `SETTIMEOUT ${TIMEOUT_S}`,
    'SETTITLE GPG Bridge',
    `SETDESC ${escaped(asked)}`,
    `SETOK ${escaped(ok)}`,
    ...(other === undefined ? [] : [`SETNOTOK ${escaped(other)}`]),
    `SETCANCEL ${escaped(cancel)}`,
    ...(byNumber ? ['SETPROMPT Number:', 'GETPIN'] : ['CONFIRM']),
  ];
  const answer = (await converse(program, commands, GIVE_UP_MS, options)).at(-1)!;
  if (answer.word === 'OK') {
    if (!byNumber) return 'ok';
    return /^D (.*)/m.exec(answer.bytes.toString('latin1'))?.[1] === number ? 'ok' : 'cancel';
  }
  const { code, text } = decodeError(errorValueOf(answer.line) ?? 0);
  if (code === GPG_ERROR.NOT_CONFIRMED && other !== undefined) {
    return /^S BUTTON_INFO close/m.test(answer.bytes.toString('latin1')) ? 'cancel' : 'other';
  }
  if (code === GPG_ERROR.NOT_CONFIRMED || code === GPG_ERROR.CANCELED || code === GPG_ERROR.TIMEOUT)
    return 'cancel';
  throw new Error(`${program} says: ${text}`);
}

/** Runs a pinentry for a few commands and returns its answers. */
async function converse(
  program: string,
  commands: readonly string[],
  timeoutMs: number,
  { env, signal }: PinentryOptions,
): Promise<Block[]> {
  const child = spawn(program, env.DISPLAY ? ['--display', env.DISPLAY] : [], {
    env,
    stdio: ['pipe', 'pipe', 'ignore'],
    windowsHide: true,
  });
  const failed = once(child, 'error').then(([error]) => {
    throw error;
  });
  failed.catch(() => {});
  if (child.pid === undefined) return failed;
  child.stdin.on('error', () => {}); // one that has ended
  const take = () => void child.kill();
  signal?.addEventListener('abort', take);
  if (signal?.aborted) take();
  const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
  stream.on('error', () => {});
  try {
    const asking = ask(stream, commands, { timeoutMs, agentName: 'pinentry' });
    return (await Promise.race([asking, failed])).responses;
  } finally {
    signal?.removeEventListener('abort', take);
    stream.destroy();
    child.kill();
  }
}

/** Text for a line of Assuan, as pinentry reads it. */
function escaped(text: string): string {
  return Buffer.from(text.replace(/[%\r\n]/g, encodeURIComponent)).toString('latin1');
}
