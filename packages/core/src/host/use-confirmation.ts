import { GET_PASSPHRASE } from '../assuan/private-key-commands.ts';
import { configuredPath } from '../gnupg/agent-conf.ts';
import { pinentryProgram } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import type { LogCallback } from '../log.ts';
import { plainLine, printable } from '../text/escape.ts';
import type { KeyUse } from './key-use-record.ts';
import { askPinentry, type PinentryOptions, pinentryAbilities } from './pinentry-question.ts';

/** Whom it asks about what. */
export interface UseConfirmationOptions extends GnupgOptions {
  /** The target as a person names it. */
  target(): string;
  /** Whose a key is, where that is known. */
  nameOf(key: string): Promise<string | undefined>;
  log: LogCallback;
  now?: () => number;
}

const TEN_MINUTES_MS = 10 * 60_000;
/** With four bytes for each character the whole question still fits into one line of Assuan, which has 1,000. */
const TARGET_CHARACTERS = 120;
const OWNER_CHARACTERS = 80;
const TEN_MINUTES = 'Allow for ten minutes';

/** What is asked for, by command. */
const WISHES: Readonly<Record<string, string>> = {
  PKSIGN: 'wants to sign with your GPG key',
  PKDECRYPT: 'wants to decrypt with your GPG key',
  PKAUTH: 'wants to authenticate with your GPG key',
  sign: 'wants to log in with your SSH key',
  'sign signature': 'wants to sign data with your SSH key',
  [GET_PASSPHRASE]: 'wants to ask you for a passphrase in its own words, and will get what you type',
};

/**
 * Asks the person at the host, with the pinentry that gpg-agent uses, whether a target may use a key: this once, or
 * that key for the same purpose for ten minutes. If nobody can be asked, it may not.
 */
export class UseConfirmation {
  readonly #options: UseConfirmationOptions;
  readonly #now: () => number;
  /** When a use, by command and key, was last allowed, and until when it is allowed without a question. */
  readonly #allowed = new Map<string, { at: number; until: number }>();

  constructor(options: UseConfirmationOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Whether a use is allowed; `signal` takes the question back. */
  readonly confirm = async (use: KeyUse, signal: AbortSignal): Promise<boolean> => {
    const name = [purposeOf(use), use.key, use.another].join(' ');
    const known = this.#allowed.get(name);
    if (known && this.#now() < known.until) return true;
    try {
      const answer = await this.#ask(use, known !== undefined && this.#isRecent(known.at), signal);
      if (answer === 'no') return false;
      // A passphrase is asked for in other words every time.
      const forTime = answer === 'ten-minutes' && use.command !== GET_PASSPHRASE;
      this.#allowed.set(name, { at: this.#now(), until: forTime ? this.#now() + TEN_MINUTES_MS : 0 });
      if (forTime) this.#options.log(`${use.command} with key ${use.key} is allowed for ten minutes`, 'info');
      return true;
    } catch (error) {
      if (!signal.aborted)
        this.#options.log(
          `nobody could be asked about ${use.command}, so it was refused: ${printable((error as Error).message)}`,
          'warn',
        );
      return false;
    }
  };

  #isRecent(at: number): boolean {
    return this.#now() - at < TEN_MINUTES_MS;
  }

  async #ask(use: KeyUse, again: boolean, signal: AbortSignal): Promise<'once' | 'ten-minutes' | 'no'> {
    const program = await this.#program();
    const options: PinentryOptions = { env: this.#options.env ?? process.env, signal };
    const description = await this.#describe(use);
    const mayLast = use.command !== GET_PASSPHRASE;
    const { hasThirdButton, takesKeys: byNumber } = await pinentryAbilities(program, options);
    const three = mayLast && hasThirdButton;
    const other = three ? TEN_MINUTES : undefined;
    const first = { description, ok: 'Allow once', cancel: 'Refuse', other, byNumber };
    const answer = await askPinentry(program, first, options);
    if (answer !== 'ok') return answer === 'other' ? 'ten-minutes' : 'no';
    if (three || !again || !mayLast) return 'once';
    // Where there are two buttons, who is asked again gets the third as a question of its own.
    const second = { description, ok: TEN_MINUTES, cancel: 'Only this once', byNumber };
    return (await askPinentry(program, second, options)) === 'ok' ? 'ten-minutes' : 'once';
  }

  async #program(): Promise<string> {
    const program =
      (await configuredPath('pinentry-program', this.#options)) ?? (await pinentryProgram(this.#options));
    if (program) return program;
    throw new Error('gpgconf knows no pinentry');
  }

  async #describe(use: KeyUse): Promise<string> {
    const { command, key, another, name, note } = use;
    const wish = WISHES[purposeOf(use)] ?? `wants to use your key (${command})`;
    const owner = key && command !== GET_PASSPHRASE ? (name ?? (await this.#options.nameOf(key))) : undefined;
    const lines = [
      `${shortened(this.#options.target(), TARGET_CHARACTERS)} ${wish}.`,
      ...(owner ? [shortened(owner, OWNER_CHARACTERS)] : []),
      ...(key && command !== GET_PASSPHRASE ? [key] : []),
      ...(another ? [`and ${another}`] : []),
      ...(note ? [`It is ${note}.`] : []),
    ];
    return lines.join('\n');
  }
}

/** What a use is for: a login and another SSH signature are two things. */
function purposeOf({ command, purpose }: KeyUse): string {
  return purpose === undefined ? command : `${command} ${purpose}`;
}

function shortened(text: string, limit: number): string {
  const plain = plainLine(text);
  return plain.length > limit ? `${plain.slice(0, limit - 1)}…` : plain;
}
