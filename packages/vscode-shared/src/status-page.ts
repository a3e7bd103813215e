import { randomBytes } from 'node:crypto';
import type { WebviewPanel } from 'vscode';
import { t } from './l10n.ts';
import { type PageButton, statusHtml } from './status-html.ts';
import { reportText, type StatusReport } from './status-report.ts';
import type { VsCode } from './vscode-api.ts';

/** What the page of one half needs. */
export interface StatusPageOptions {
  vs: Pick<VsCode, 'window' | 'env' | 'commands' | 'ViewColumn'>;
  /** What is so now; `fresh` when the person has just asked for it. */
  describe(options: { fresh: boolean }): Promise<StatusReport>;
  /** The buttons after Copy, which may depend on what is so. */
  buttons(): Promise<PageButton[]>;
  /** The command that copies the page; this half's own. */
  copyCommand: string;
}

const EVERY_MS = 2_000;

/** A page of its own in the editor that tells how things stand, kept up to date while it is shown. */
export class StatusPage {
  readonly #options: StatusPageOptions;
  #panel: WebviewPanel | undefined;
  #report: StatusReport | undefined;
  #shown = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StatusPageOptions) {
    this.#options = options;
  }

  /** Opens the page, or brings it to the front. */
  async open(): Promise<void> {
    const { vs } = this.#options;
    if (!this.#panel) {
      const panel = vs.window.createWebviewPanel(
        'gpgBridgeStatus',
        t('GPG Bridge: Status'),
        vs.ViewColumn.Active,
        { enableFindWidget: true },
      );
      panel.onDidDispose(() => this.#closed());
      panel.onDidChangeViewState(() => panel.visible && void this.#update());
      this.#panel = panel;
    } else this.#panel.reveal();
    await this.#update({ fresh: true });
  }

  get isOpen(): boolean {
    return this.#panel !== undefined;
  }

  /** Closes the page, if it is open. */
  close(): void {
    this.#panel?.dispose();
  }

  /** The command behind the Copy button. */
  register(): { dispose(): unknown } {
    const { vs, copyCommand } = this.#options;
    const command = vs.commands.registerCommand(copyCommand, () => this.#copy());
    return {
      dispose: () => {
        command.dispose();
        this.close();
      },
    };
  }

  async #copy(): Promise<void> {
    const { vs } = this.#options;
    if (!this.#report) return;
    await vs.env.clipboard.writeText(reportText(this.#report));
    void vs.window.showInformationMessage(t('GPG Bridge: the status was copied.'));
  }

  #closed(): void {
    clearTimeout(this.#timer);
    this.#panel = undefined;
    this.#shown = '';
  }

  async #update({ fresh = false } = {}): Promise<void> {
    clearTimeout(this.#timer);
    this.#report = await this.#options.describe({ fresh });
    const buttons = await this.#options.buttons();
    // It may have been closed meanwhile.
    const panel = this.#panel;
    if (!panel) return;
    const copy = { label: t('Copy'), command: this.#options.copyCommand };
    this.#render(panel, this.#report, [copy, ...buttons]);
    clearTimeout(this.#timer);
    // Most of it is told by the other half, which has no way to know that somebody looks.
    if (panel.visible) this.#timer = setTimeout(() => void this.#update(), EVERY_MS).unref();
  }

  #render(panel: WebviewPanel, report: StatusReport, buttons: PageButton[]): void {
    const shown = JSON.stringify([report, buttons]);
    // A new page forgets how far the person has scrolled and what they have selected.
    if (shown === this.#shown) return;
    this.#shown = shown;
    panel.webview.options = {
      enableScripts: false,
      enableCommandUris: buttons.map(({ command }) => command),
    };
    const nonce = randomBytes(16).toString('base64');
    panel.webview.html = statusHtml({ report, buttons, language: this.#options.vs.env.language, nonce });
  }
}
