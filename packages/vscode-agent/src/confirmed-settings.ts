import { posix, win32 } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { ConfirmableSettings, GrantStore } from './grant-store.ts';

/** What the settings say, and the question whether that is really wanted. */
export interface ConfirmedSettingsOptions {
  store: GrantStore;
  /** The settings as they are written, whoever wrote them. */
  written(): { gpgBinDir: string; consent: string };
  /** Asks the person on the host; undefined when they closed the dialog without an answer. */
  confirm(name: keyof ConfirmableSettings, value: string): Promise<boolean | undefined>;
  platform?: NodeJS.Platform;
}

/**
 * The settings of the host's side. Extensions of a remote can write user settings through VS Code, so a value
 * acts only after a dialog on the host confirmed that very value; the defaults need none.
 */
export class ConfirmedSettings {
  readonly #options: ConfirmedSettingsOptions;
  #asking: Promise<void> | undefined;
  /** Values whose dialog was closed without an answer: programs do not open it again in this window. */
  readonly #closed = new Set<string>();

  constructor(options: ConfirmedSettingsOptions) {
    this.#options = options;
    this.forgetWithdrawn();
  }

  /** The confirmed directory of GnuPG's programs; undefined for the default. Throws for one that is refused. */
  gpgBinDir(): string | undefined {
    const { gpgBinDir } = this.#options.written();
    if (gpgBinDir === '') return undefined;
    this.#refuseUnfit(gpgBinDir);
    return this.#isConfirmed('gpgBinDir', gpgBinDir) ? gpgBinDir : undefined;
  }

  /** Whether every remote is allowed. */
  always(): boolean {
    return this.#options.written().consent === 'always' && this.#isConfirmed('consent', 'always');
  }

  /** The directory that is written, if it was neither confirmed nor declined yet. */
  unconfirmedBinDir(): string | undefined {
    const { store, written } = this.#options;
    const { gpgBinDir } = written();
    const isOpen = gpgBinDir !== '' && !this.#isConfirmed('gpgBinDir', gpgBinDir);
    return isOpen && store.read().declined.gpgBinDir !== gpgBinDir ? gpgBinDir : undefined;
  }

  /** Asks about what is written and was neither confirmed nor declined yet; one question at a time. */
  async confirm(
    names: readonly (keyof ConfirmableSettings)[] = SETTINGS,
    { personAsks = false } = {},
  ): Promise<void> {
    if (personAsks) this.#closed.clear();
    await this.#asking?.catch(() => {}); // whoever asked is told what was wrong
    this.#asking = this.#confirm(names).finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
  }

  /** A value that was changed has to be confirmed again, even if it comes back. */
  forgetWithdrawn(): void {
    const { store, written } = this.#options;
    const now = written();
    const stale = (kept: ConfirmableSettings) =>
      SETTINGS.some((name) => kept[name] !== undefined && kept[name] !== now[name]);
    const { confirmed, declined } = store.read();
    if (!stale(confirmed) && !stale(declined)) return;
    const still = (kept: ConfirmableSettings): ConfirmableSettings =>
      Object.fromEntries(
        SETTINGS.filter((name) => kept[name] === now[name]).map((name) => [name, kept[name]]),
      );
    store.update((grants) => ({ confirmed: still(grants.confirmed), declined: still(grants.declined) }));
  }

  /** Takes a confirmation back. */
  decline(name: keyof ConfirmableSettings): void {
    const value = this.#options.written()[name];
    this.#options.store.update(({ confirmed, declined }) => ({
      confirmed: { ...confirmed, [name]: undefined },
      declined: { ...declined, [name]: value },
    }));
  }

  /** Asks once more about a value that was declined. */
  async reconsider(name: keyof ConfirmableSettings): Promise<void> {
    this.#options.store.update(({ declined }) => ({ declined: { ...declined, [name]: undefined } }));
    await this.confirm([name], { personAsks: true });
  }

  async #confirm(names: readonly (keyof ConfirmableSettings)[]): Promise<void> {
    this.forgetWithdrawn();
    const { store, written, confirm } = this.#options;
    for (const name of names) {
      const value = written()[name];
      if (value === DEFAULTS[name] || this.#isConfirmed(name, value)) continue;
      if (store.read().declined[name] === value) continue;
      if (name === 'gpgBinDir') this.#refuseUnfit(value);
      else if (value !== 'always') continue;
      const question = `${name}=${value}`;
      if (this.#closed.has(question)) continue;
      const yes = await confirm(name, value);
      if (yes === undefined) this.#closed.add(question);
      // It may have been changed while the dialog was open.
      if (yes === undefined || written()[name] !== value) continue;
      store.update(({ confirmed, declined }) =>
        yes
          ? { confirmed: { ...confirmed, [name]: value }, declined: { ...declined, [name]: undefined } }
          : { declined: { ...declined, [name]: value } },
      );
    }
  }

  #isConfirmed(name: keyof ConfirmableSettings, value: string): boolean {
    return this.#options.store.read().confirmed[name] === value;
  }

  /** A path on another machine would be opened, with the person's name and password hash, before it is run. */
  #refuseUnfit(directory: string): void {
    const { platform = process.platform } = this.#options;
    const path = platform === 'win32' ? win32 : posix;
    const isNetwork = /^[\\/]{2}/.test(directory);
    if (!isNetwork && path.isAbsolute(directory)) return;
    throw new BridgeError('SETTING_REFUSED', {
      what: t('the setting gpgBridgeAgent.gpgBinDir of your computer can not be used'),
      why: isNetwork
        ? t('"{0}" is a path on another machine', directory)
        : t('"{0}" is not an absolute path', directory),
      fix: t('Set it to a directory of your computer, or clear it.'),
    });
  }
}

const SETTINGS = ['gpgBinDir', 'consent'] as const;
const DEFAULTS = { gpgBinDir: '', consent: 'ask' } as const;
