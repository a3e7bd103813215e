import { mkdtempSync } from 'node:fs';
import type { Context, VsCode } from '@gpg-bridge/vscode-shared/vscode-api';
import type { QuickPickItem, StatusBarItem } from 'vscode';

/** A message that the code under test showed. */
export interface ShownMessage {
  level: 'information' | 'warning' | 'error';
  text: string;
  modal: boolean;
  detail: string;
  buttons: string[];
}

/** A page that the code under test opened, as much of it as is looked at. */
export interface FakePage {
  title: string;
  webview: { html: string; options: unknown };
  visible: boolean;
}

type Handler = (...args: never[]) => unknown;

/**
 * The part of VS Code that the extensions use, with a person who answers as the test says: `onMessage`
 * returns the button they press, `onPick` the item they choose (undefined: they press Escape).
 */
export class FakeVsCode {
  readonly messages: ShownMessage[] = [];
  readonly picks: { title: string; items: QuickPickItem[] }[] = [];
  readonly progress: string[] = [];
  readonly logged: string[] = [];
  /** The level of the log channels: 1 is trace, 3 is info. */
  logLevel = 3;
  readonly statusItems: StatusBarItem[] = [];
  readonly pages: FakePage[] = [];
  readonly copied: string[] = [];
  readonly settings = new Map<string, unknown>();
  readonly handlers = new Map<string, Handler>();
  onMessage: (message: ShownMessage) => string | undefined = () => undefined;
  onPick: (items: QuickPickItem[], title: string) => unknown = () => undefined;
  readonly env = {
    remoteName: undefined as string | undefined,
    machineId: 'my-computer',
    language: 'en',
    clipboard: { writeText: async (text: string) => void this.copied.push(text) },
  };
  readonly workspace = {
    name: 'project',
    workspaceFolders: [] as { uri: { scheme: string; authority: string } }[],
    isTrusted: true,
  };
  /** What a screen reader hears of the rows of lists. */
  readonly spoken: string[] = [];
  /** The context keys that were set. */
  readonly contextKeys = new Map<string, unknown>();
  readonly #folderListeners = new Set<() => void>();
  readonly #tabListeners = new Set<(event: { opened: unknown[] }) => void>();
  readonly #settingsListeners = new Set<(event: unknown) => void>();

  /** What to hand to the code under test. */
  readonly api = this.#build() as unknown as VsCode;

  /** Changes a setting as a person would, and tells those who listen. */
  changeSetting(key: string, value: unknown): void {
    this.settings.set(key, value);
    const event = { affectsConfiguration: (section: string) => key.startsWith(section) };
    for (const listener of this.#settingsListeners) listener(event);
  }

  /** Changes the window's folders, as any of its extensions can. */
  changeFolders(...authorities: string[]): void {
    this.workspace.workspaceFolders = authorities.map((authority) => ({
      uri: { scheme: 'vscode-remote', authority },
    }));
    for (const listener of this.#folderListeners) listener();
  }

  /** Opens a tab. */
  openTab(): void {
    for (const listener of this.#tabListeners) listener({ opened: [{}] });
  }

  /** The messages' texts, in the order they were shown. */
  get texts(): string[] {
    return this.messages.map((message) => message.text);
  }

  #build() {
    const show =
      (level: ShownMessage['level']) =>
      async (text: string, ...rest: (string | { modal?: boolean; detail?: string })[]) => {
        const options = typeof rest[0] === 'object' ? rest[0] : {};
        const buttons = rest.filter((item) => typeof item === 'string');
        const message = { level, text, modal: options.modal ?? false, detail: options.detail ?? '', buttons };
        this.messages.push(message);
        return this.onMessage(message);
      };
    const log = (level: string) => (line: string) => void this.logged.push(`${level} ${line}`);
    return {
      LogLevel: { Trace: 1, Info: 3 },
      StatusBarAlignment: { Left: 1, Right: 2 },
      ProgressLocation: { SourceControl: 1, Window: 10, Notification: 15 },
      ConfigurationTarget: { Global: 1, Workspace: 2, WorkspaceFolder: 3 },
      ViewColumn: { Active: -1 },
      QuickPickItemKind: { Separator: -1, Default: 0 },
      ThemeIcon: class {
        constructor(readonly id: string) {}
      },
      ThemeColor: class {
        constructor(readonly id: string) {}
      },
      version: '1.100.0',
      env: this.env,
      workspace: Object.assign(this.workspace, {
        getConfiguration: (section: string) => ({
          get: (name: string, fallback: unknown) => this.settings.get(`${section}.${name}`) ?? fallback,
          update: async (name: string, value: unknown) => this.changeSetting(`${section}.${name}`, value),
        }),
        onDidChangeConfiguration: (listener: (event: unknown) => void) => {
          this.#settingsListeners.add(listener);
          return { dispose: () => this.#settingsListeners.delete(listener) };
        },
        onDidChangeWorkspaceFolders: (listener: () => void) => {
          this.#folderListeners.add(listener);
          return { dispose: () => this.#folderListeners.delete(listener) };
        },
      }),
      window: {
        showInformationMessage: show('information'),
        showWarningMessage: show('warning'),
        showErrorMessage: show('error'),
        showQuickPick: async (
          items: QuickPickItem[] | Promise<QuickPickItem[]>,
          options: { title?: string } = {},
        ) => {
          const list = (await items).map((item) => withIconInLabel(item, this));
          this.picks.push({ title: options.title ?? '', items: list });
          return this.onPick(list, options.title ?? '');
        },
        withProgress: (
          options: { title: string },
          task: (progress: unknown, cancelled: unknown) => unknown,
        ) => {
          this.progress.push(options.title);
          const report = ({ message }: { message: string }) =>
            void this.progress.push(`${options.title}: ${message}`);
          return task({ report }, { onCancellationRequested: () => ({ dispose: () => {} }) });
        },
        tabGroups: {
          onDidChangeTabs: (listener: (event: { opened: unknown[] }) => void) => {
            this.#tabListeners.add(listener);
            return { dispose: () => this.#tabListeners.delete(listener) };
          },
        },
        createOutputChannel: () => ({
          logLevel: this.logLevel,
          trace: log('trace'),
          debug: log('debug'),
          info: log('info'),
          warn: log('warn'),
          error: log('error'),
          show: () => void this.logged.push('shown'),
          dispose: () => {},
        }),
        createWebviewPanel: (_type: string, title: string) => {
          const webview = { html: '', options: {} };
          const closed = new Set<() => void>();
          const page = {
            title,
            webview,
            visible: true,
            reveal: () => {},
            dispose: () => {
              page.visible = false;
              for (const listener of closed) listener();
            },
            onDidDispose: (listener: () => void) => closed.add(listener),
            onDidChangeViewState: () => {},
          };
          this.pages.push(page);
          return page;
        },
        createStatusBarItem: (id: string) => {
          const item = { id, show: () => {}, hide: () => {}, dispose: () => {} } as unknown as StatusBarItem;
          this.statusItems.push(item);
          return item;
        },
      },
      commands: {
        registerCommand: (id: string, handler: Handler) => {
          this.handlers.set(id, handler);
          return { dispose: () => this.handlers.delete(id) };
        },
        executeCommand: async (id: string, ...args: unknown[]) => {
          if (id === 'setContext') return void this.contextKeys.set(String(args[0]), args[1]);
          const handler = this.handlers.get(id);
          if (!handler) throw new Error(`command '${id}' not found`);
          // Between extension hosts arguments and results travel as JSON.
          const result = await handler(...(JSON.parse(JSON.stringify(args)) as never[]));
          return result === undefined ? undefined : JSON.parse(JSON.stringify(result));
        },
        getCommands: async () => [...this.handlers.keys()],
      },
    };
  }
}

/** A row as a person sees it: the icon, then the words. What a screen reader hears are the words alone. */
function withIconInLabel(item: QuickPickItem, { spoken }: FakeVsCode): QuickPickItem {
  spoken.push(item.label);
  return item.iconPath
    ? { ...item, label: `$(${(item.iconPath as { id: string }).id}) ${item.label}` }
    : item;
}

/** An extension's context, with a storage of its own unless it is given one. */
export function fakeContext(version = '0.1.0', storage = mkdtempSync('/tmp/gb-')): Context {
  return {
    subscriptions: [],
    globalStorageUri: { fsPath: storage },
    extension: { packageJSON: { version }, extensionKind: 1 },
  };
}
