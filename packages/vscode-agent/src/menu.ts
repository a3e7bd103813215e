import type { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import type { HostMenuPage, MenuOutcome, OwnKeysAnswer } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { pickFrom } from '@gpg-bridge/vscode-shared/pick-from';
import { describeOperation, type RecentOperations } from '@gpg-bridge/vscode-shared/recent-operations';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { ConfirmedSettings } from './confirmed-settings.ts';
import type { Consent, Decision } from './consent.ts';
import type { HostDialogs } from './consent-dialogs.ts';
import type { ConfirmableSettings, GrantStore } from './grant-store.ts';
import type { Remote } from './remote-authority.ts';

/** What the host's menu shows and changes. */
export interface HostMenuOptions {
  vs: Pick<VsCode, 'window' | 'commands' | 'ThemeIcon'>;
  consent: Consent;
  settings: ConfirmedSettings;
  store: GrantStore;
  dialogs: HostDialogs;
  operations: RecentOperations;
  names: KeyNames;
  remote(): Remote | undefined;
  /** Gives the token of a new grant to the remote's half of this window. */
  giveToken(token: string | undefined): void;
  /** Whether the remote's half runs in this window. */
  hasRemoteHalf(): Promise<boolean>;
  installRemoteHalf(): Promise<void>;
  showStatus(): unknown;
  start(): Promise<unknown>;
  showLog(): void;
  /** Shows every use of a private key that is on record, of all windows and earlier ones. */
  showRecord(): void;
}

interface Item {
  label: string;
  description?: string;
  detail?: string;
  run(): unknown;
}

const MINUTE_MS = 60_000;

/** The menu of the host's extension, opened at its first page or straight at another. */
export class HostMenu {
  constructor(private readonly options: HostMenuOptions) {}

  /** Opens a page; anything but a page's name opens the first. Returns what is left for the remote to do. */
  async open(page?: unknown, ownKeys?: unknown): Promise<MenuOutcome> {
    const pages: Record<HostMenuPage, () => Promise<MenuOutcome>> = {
      allowed: () => this.#allowed(ownKeys === 'set-aside' || ownKeys === 'keep' ? ownKeys : undefined),
      'allow-for': () => this.#allowFor(),
      operations: () => this.#operations(),
      pause: () => this.#pause(),
    };
    const named = typeof page === 'string' && Object.hasOwn(pages, page) ? (page as HostMenuPage) : undefined;
    return named ? pages[named]() : this.#first(pages);
  }

  /** Shows a list and runs what is picked. The first row is the one that Enter takes: it never stops anything. */
  async #choose(items: Item[], title: string, placeHolder = ''): Promise<MenuOutcome> {
    const picked = await pickFrom(this.options.vs, items, { title, placeHolder });
    return (await picked?.run()) === 'forget-own-keys' ? 'forget-own-keys' : undefined;
  }

  async #first(pages: Record<HostMenuPage, () => Promise<MenuOutcome>>): Promise<MenuOutcome> {
    const { store, consent, remote, start, showLog, showStatus, hasRemoteHalf } = this.options;
    const { stopped } = store.read();
    const isStopped = stopped !== undefined && (stopped.until ?? Infinity) > Date.now();
    const items: Item[] = [];
    if (isStopped) {
      items.push({
        label: `$(play) ${t('Start on this computer…')}`,
        description: t('remotes that you allow can use your keys again'),
        run: async () => void (await start()),
      });
    }
    if (remote() && !(await hasRemoteHalf())) {
      items.push({
        label: `$(cloud-download) ${t('Install "Remote GPG Bridge" here…')}`,
        description: t('the other half is missing in this remote'),
        run: async () => void (await this.options.installRemoteHalf()),
      });
    }
    items.push(
      {
        label: `$(shield) ${t('What is allowed')}`,
        description: t('see and change it'),
        run: pages.allowed,
      },
      {
        label: `$(history) ${t('Recent operations')}`,
        description: t('what your keys were used for'),
        run: pages.operations,
      },
      {
        label: `$(info) ${t('Show status')}`,
        description: t('both halves, keys, last operations'),
        run: showStatus,
      },
      { label: `$(output) ${t('Show log')}`, description: t('of this computer'), run: showLog },
    );
    if (!isStopped) {
      items.push(
        {
          label: `$(debug-pause) ${t('Pause…')}`,
          description: t('nothing is signed for any remote for a while'),
          run: pages.pause,
        },
        {
          label: `$(debug-stop) ${t('Stop on this computer')}`,
          description: t('no remote can use your keys, in any window, until you start it again'),
          run: () => consent.stop('computer', remote()),
        },
      );
    }
    return this.#choose(
      items,
      isStopped ? t('GPG Bridge on this computer: stopped') : t('GPG Bridge on this computer: ready'),
    );
  }

  async #pause(): Promise<MenuOutcome> {
    const { consent, remote } = this.options;
    const pause = (label: string, forMs?: number): Item => ({
      label: `$(debug-pause) ${label}`,
      run: () => consent.stop('computer', remote(), forMs),
    });
    return this.#choose(
      [
        pause(t('For 10 minutes'), 10 * MINUTE_MS),
        pause(t('For an hour'), 60 * MINUTE_MS),
        pause(t('Until I start it again')),
      ],
      t('Pause GPG Bridge on this computer'),
      t('No remote can use your keys meanwhile, in any window'),
    );
  }

  async #allowFor(): Promise<MenuOutcome> {
    const { consent, dialogs, giveToken } = this.options;
    const remote = this.options.remote();
    if (!remote?.certain) {
      await this.#ask(remote);
      return undefined;
    }
    const allow = (words: string, minutes: number): Item => ({
      label: `$(watch) ${words}`,
      run: async () => {
        if (!(await dialogs.confirmForTime(remote, words))) return;
        giveToken(consent.decide(remote, { is: 'allow', forMs: minutes * MINUTE_MS }));
      },
    });
    return this.#choose(
      [allow(t('10 minutes'), 10), allow(t('1 hour'), 60), allow(t('8 hours'), 480)],
      t('For how long may "{0}" use your GPG keys?', remote.label),
    );
  }

  async #ask(remote: Remote | undefined): Promise<void> {
    const { consent, dialogs, giveToken } = this.options;
    const answer = remote && (await dialogs.ask(remote));
    if (answer) giveToken(consent.decide(remote, answer));
  }

  async #allowed(ownKeys: OwnKeysAnswer | undefined): Promise<MenuOutcome> {
    const { vs, consent } = this.options;
    const here = this.options.remote();
    const remotes = consent.decisions(here).map(
      (decision): Item => ({
        label: `${iconOf(decision, this.#isAlways(decision))} ${decision.label}`,
        description: [
          wordsOf(decision, this.#isAlways(decision)),
          ...(decision.authority === here?.authority ? [t('this window')] : []),
        ].join(' · '),
        detail: decision.authority === decision.label ? '' : decision.authority,
        run: () => this.#change(decision, decision.authority === here?.authority),
      }),
    );
    const items = [...remotes, ...this.#settingItems(), ...ownKeysItems(ownKeys)];
    if (items.length === 0) {
      void vs.window.showInformationMessage(t('No remote has asked for your GPG keys yet.'));
      return undefined;
    }
    return this.#choose(items, t('Who may use your GPG keys'), t('Choose one to change it'));
  }

  #isAlways({ certain, answer }: Decision): boolean {
    return certain && answer === undefined && this.options.settings.always();
  }

  /** The settings that had to be confirmed, and what was answered. */
  #settingItems(): Item[] {
    const { store, settings } = this.options;
    const { confirmed, declined } = store.read();
    const names: Record<keyof ConfirmableSettings, string> = {
      consent: t('Every remote (setting "consent: always")'),
      gpgBinDir: t('GnuPG programs (setting "gpgBinDir")'),
    };
    return (['consent', 'gpgBinDir'] as const).flatMap((name): Item[] => {
      const [value, state] =
        confirmed[name] === undefined ? [declined[name], 'declined'] : [confirmed[name], 'confirmed'];
      if (value === undefined) return [];
      const isConfirmed = state === 'confirmed';
      const take: Item = isConfirmed
        ? {
            label: `$(circle-slash) ${t('Take the confirmation back')}`,
            run: () => settings.decline(name),
          }
        : { label: `$(check) ${t('Confirm it…')}`, run: () => settings.reconsider(name) };
      return [
        {
          label: `${isConfirmed ? '$(check)' : '$(circle-slash)'} ${names[name]}`,
          description: isConfirmed ? t('Confirmed') : t('Declined'),
          detail: name === 'gpgBinDir' ? value : '',
          run: () => this.#choose([take], names[name]),
        },
      ];
    });
  }

  async #change(decision: Decision, isHere: boolean): Promise<MenuOutcome> {
    const { consent, start } = this.options;
    const { answer, authority, label, off } = decision;
    const items: (Item & { hidden?: boolean })[] = [
      {
        label: `$(play) ${t('Start…')}`,
        hidden: !off || !isHere,
        run: async () => void (await start()),
      },
      {
        // Allowing goes through the dialog: other extensions could press an item of this list.
        label: `$(check) ${t('Allow…')}`,
        hidden: !isHere || (answer === 'allow' && decision.until === undefined),
        run: () => this.#ask(decision),
      },
      {
        label: `$(watch) ${t('Allow for a time…')}`,
        hidden: !isHere || !decision.certain,
        run: () => this.#allowFor(),
      },
      {
        label: `$(discard) ${t('Forget the answer')}`,
        description: t('you will be asked again'),
        hidden: answer === undefined,
        run: () => consent.forget(authority, isHere),
      },
      {
        label: `$(circle-slash) ${t('Never allow')}`,
        hidden: answer === 'never',
        run: () => void consent.decide({ authority, label, certain: true }, { is: 'never' }),
      },
    ];
    const title = `${label}: ${wordsOf(decision, this.#isAlways(decision))}`;
    return this.#choose(
      items.filter((item) => !item.hidden),
      title,
    );
  }

  async #operations(): Promise<MenuOutcome> {
    const { vs, operations, names, showLog, showRecord } = this.options;
    const list = operations.list();
    if (list.length === 0) {
      const everything = t('Show Everything on Record');
      const text = t('Your keys have not been used through GPG Bridge in this window.');
      // Nobody has to answer it.
      void vs.window
        .showInformationMessage(text, everything)
        .then((pressed) => pressed === everything && showRecord());
      return undefined;
    }
    const items = await Promise.all(
      list.map(async (operation) => ({
        label: `${operation.outcome === 'ok' ? '$(check)' : '$(warning)'} ${describeOperation(operation)}`,
        description: new Date(operation.startedAt).toLocaleTimeString(),
        // If the keys can't be listed, operations show the keygrip instead of a name.
        detail: operation.key ? ((await names.nameOf(operation.key)) ?? t('key {0}', operation.key)) : '',
        run: showLog,
      })),
    );
    const record: Item = {
      label: `$(list-unordered) ${t('Show Everything on Record')}`,
      description: t('of all windows, also of earlier ones'),
      run: showRecord,
    };
    return this.#choose(
      [...items, record],
      t('What your keys were used for in this window'),
      t('Choose one to see the log'),
    );
  }
}

function ownKeysItems(answer: OwnKeysAnswer | undefined): Item[] {
  if (answer === undefined) return [];
  return [
    {
      label: `$(key) ${t('Private keys of this remote itself')}`,
      description:
        answer === 'set-aside'
          ? t('Set aside while GPG Bridge is on')
          : t('Used in place of your computer’s'),
      detail: t('Choose it to be asked again'),
      run: () => 'forget-own-keys' as const,
    },
  ];
}

function iconOf({ answer, off }: Decision, always: boolean): string {
  if (off) return '$(debug-stop)';
  if (answer === 'never') return '$(circle-slash)';
  if (answer === 'only-now') return '$(watch)';
  return answer === 'allow' || always ? '$(check)' : '$(question)';
}

function wordsOf({ answer, until, off }: Decision, always: boolean): string {
  const words = {
    allow: until
      ? t('Allowed until {0}', new Date(until).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }))
      : t('Allowed'),
    'only-now': t('Allowed until this window is closed or reloaded'),
    never: t('Never allowed'),
  };
  const said = answer ? words[answer] : always ? t('Allowed, as every remote is') : t('Not decided yet');
  return off ? t('Stopped ({0})', said) : said;
}
