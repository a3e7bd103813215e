import { GET_PASSPHRASE } from '../assuan/private-key-commands.ts';
import { plainLine } from '../text/escape.ts';
import { DesktopNotice, type DesktopNoticeOptions } from './desktop-notice.ts';
import type { KeyUse } from './key-use-record.ts';

/** Whose uses are told, and how. */
export interface UseNoticeOptions extends DesktopNoticeOptions {
  /** The target as a person names it. */
  target(): string;
  /** Whose a key is, where that is known. */
  nameOf(key: string): Promise<string | undefined>;
}

/** Of a name in a notice. */
const MAX_CHARACTERS = 200;

/** What was done, by command. */
const DEEDS: Readonly<Record<string, string>> = {
  PKSIGN: 'a signature with your GPG key',
  PKDECRYPT: 'a decryption with your GPG key',
  PKAUTH: 'an authentication with your GPG key',
  sign: 'a signature with your SSH key',
  [GET_PASSPHRASE]: 'a passphrase that you were asked for',
};

/** Shows a notice of the desktop's own at each use of a key. */
export class UseNotice {
  readonly #options: UseNoticeOptions;
  readonly #desktop: DesktopNotice;

  constructor(options: UseNoticeOptions) {
    this.#options = options;
    this.#desktop = new DesktopNotice(options);
  }

  /** Tells the person of a use that has ended. */
  readonly notify = (use: KeyUse, outcome: string): void => {
    void this.#describe(use, outcome).then((text) => this.#desktop.show(text));
  };

  async #describe({ command, key, name: listed }: KeyUse, outcome: string): Promise<string> {
    const { target, nameOf } = this.#options;
    const name = listed ?? (key === undefined ? undefined : await nameOf(key).catch(() => undefined));
    const deed = DEEDS[command] ?? 'a use of your key';
    const whose = name ? ` of ${plainLine(name).slice(0, MAX_CHARACTERS)}` : '';
    return `${plainLine(target()).slice(0, MAX_CHARACTERS)}: ${deed}${whose}${outcome === 'ok' ? '' : ` (${outcome})`}`;
  }
}
