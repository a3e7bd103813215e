import type { ListedKey } from '@gpg-bridge/core/gnupg/key-listing';
import type { HostMenuPage } from '@gpg-bridge/vscode-shared/contract';
import type { VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { Consent, ConsentAnswer, ConsentDialogs, Decision } from './consent.ts';
import { describeOperation, type RecentOperations } from './recent-operations.ts';
import type { Remote } from './remote-authority.ts';

/** What the host's menu shows and changes. */
export interface HostMenuOptions {
  vs: Pick<VsCode, 'window'>;
  consent: Consent;
  dialogs: ConsentDialogs;
  operations: RecentOperations;
  remote(): Remote | undefined;
  isOn(): boolean;
  start(): void;
  stop(): Promise<void>;
  showLog(): void;
  listKeys(): Promise<ListedKey[]>;
}

const ANSWER_WORDS: Readonly<Record<ConsentAnswer, string>> = {
  allow: 'Allowed',
  'only-now': 'Allowed until this window is closed',
  never: 'Never allowed',
};

const ANSWER_ICONS: Readonly<Record<ConsentAnswer, string>> = {
  allow: '$(check)',
  'only-now': '$(watch)',
  never: '$(circle-slash)',
};

/** The menu of the host's extension, opened at its first page or straight at another. */
export class HostMenu {
  constructor(private readonly options: HostMenuOptions) {}

  /** Opens a page; anything but a page's name opens the first. */
  async open(page?: unknown): Promise<void> {
    const pages: Record<HostMenuPage, () => Promise<void>> = {
      allowed: () => this.#allowed(),
      operations: () => this.#operations(),
    };
    const named = typeof page === 'string' && Object.hasOwn(pages, page) ? (page as HostMenuPage) : undefined;
    await (named ? pages[named]() : this.#first(pages));
  }

  async #first(pages: Record<HostMenuPage, () => Promise<void>>): Promise<void> {
    const { vs, isOn, start, stop, showLog } = this.options;
    const power = isOn()
      ? { label: '$(debug-stop) Stop', description: 'no remote of this window can use your keys', run: stop }
      : {
          label: '$(play) Start',
          description: 'remotes that you allow can use your keys',
          run: async () => start(),
        };
    const items = [
      power,
      { label: '$(shield) What is allowed', description: 'see and change it', run: pages.allowed },
      {
        label: '$(history) Recent operations',
        description: 'what your keys were used for',
        run: pages.operations,
      },
      { label: '$(output) Show log', description: 'of this computer', run: async () => showLog() },
    ];
    const state = isOn() ? 'ready' : 'stopped';
    const picked = await vs.window.showQuickPick(items, { title: `GPG Bridge on this computer: ${state}` });
    await picked?.run();
  }

  async #allowed(): Promise<void> {
    const { vs, consent } = this.options;
    const items = this.#remotes().map((decision) => ({
      label: `${decision.answer ? ANSWER_ICONS[decision.answer] : '$(question)'} ${decision.label}`,
      description: decision.answer ? ANSWER_WORDS[decision.answer] : 'Not decided yet',
      detail: decision.authority === decision.label ? '' : decision.authority,
      decision,
    }));
    if (items.length === 0) {
      await vs.window.showInformationMessage('No remote has asked for your GPG keys yet.');
      return;
    }
    const title = 'Who may use your GPG keys';
    const placeHolder = 'Choose a remote to change what it may do';
    const picked = await vs.window.showQuickPick(items, { title, placeHolder });
    if (picked) await this.#change(picked.decision, consent);
  }

  /** Everything that was decided, and this window's remote in any case. */
  #remotes(): (Remote & { answer?: ConsentAnswer })[] {
    const decisions: (Remote & Partial<Decision>)[] = this.options.consent.decisions();
    const here = this.options.remote();
    const known = !here || decisions.some((decision) => decision.authority === here.authority);
    return known ? decisions : [here, ...decisions];
  }

  async #change(remote: Remote & { answer?: ConsentAnswer }, consent: Consent): Promise<void> {
    const { vs, dialogs } = this.options;
    const { answer, authority, label } = remote;
    const items = [
      // Allowing goes through the dialog: other extensions could press an item of this list.
      { label: '$(check) Allow…', hidden: answer === 'allow', run: () => dialogs.ask(remote) },
      { label: '$(circle-slash) Never allow', hidden: answer === 'never', run: async () => 'never' as const },
      {
        label: '$(discard) Forget the answer',
        description: 'you will be asked again',
        hidden: answer === undefined,
        run: async () => void (await consent.forget(authority)),
      },
    ].filter((item) => !item.hidden);
    const title = `${label}: ${answer ? ANSWER_WORDS[answer].toLowerCase() : 'not decided yet'}`;
    const picked = await vs.window.showQuickPick(items, { title });
    const given = await picked?.run();
    if (given) await consent.decide({ authority, label }, given);
  }

  async #operations(): Promise<void> {
    const { vs, operations, listKeys, showLog } = this.options;
    const list = operations.list();
    if (list.length === 0) {
      await vs.window.showInformationMessage(
        'Your keys have not been used through GPG Bridge in this window.',
      );
      return;
    }
    // If the keys can't be listed, operations show the keygrip instead of a name.
    const keys = await listKeys().catch((): ListedKey[] => []);
    const items = list.map((operation) => ({
      label: `${operation.outcome === 'ok' ? '$(check)' : '$(warning)'} ${describeOperation(operation)}`,
      description: new Date(operation.startedAt).toLocaleTimeString(),
      detail: nameOf(operation.key, keys),
    }));
    const title = 'What your keys were used for in this window';
    if (await vs.window.showQuickPick(items, { title, placeHolder: 'Choose one to see the log' })) showLog();
  }
}

function nameOf(keygrip: string | undefined, keys: readonly ListedKey[]): string {
  if (keygrip === undefined) return '';
  const key = keys.find((candidate) => candidate.keygrips.includes(keygrip));
  return key ? key.userId : `key ${keygrip}`;
}
