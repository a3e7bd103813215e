import {
  type Browser,
  type BrowserContext,
  chromium,
  type FrameLocator,
  type Locator,
  type Page,
} from 'playwright-core';
import { expect, vi } from 'vitest';

const CHROMIUM_ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const ECHO_TIMEOUT_MS = 5_000;
const PALETTE_TIMEOUT_MS = 120_000;
const TYPING_TIMEOUT_MS = 60_000;

/** What VS Code's window title and the dialogs call the remote. */
export const REMOTE_NAME = 'devbox.localhost';

/** The browser of one person: its windows share what VS Code keeps on the host's side. */
export function openProfile(browser: Browser): Promise<BrowserContext> {
  return browser.newContext({
    viewport: { width: 1100, height: 700 },
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  });
}

/** Starts a browser to whom `http://devbox.localhost` is the server. */
export function startBrowser(serverUrl: string): Promise<Browser> {
  const { host } = new URL(serverUrl);
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: [...CHROMIUM_ARGS, `--host-resolver-rules=MAP ${REMOTE_NAME}:80 ${host}`],
  });
}

/** One window of VS Code, used as a person uses it. */
export class Workbench {
  private constructor(readonly page: Page) {}

  /** Opens a folder in a new window, or none, and returns when it has started. */
  static async open(profile: BrowserContext, folder?: string): Promise<Workbench> {
    const page = await profile.newPage();
    // On a busy machine the extension hosts alone take a minute to start.
    page.setDefaultTimeout(120_000);
    await page.goto(`http://${REMOTE_NAME}/?${folder === undefined ? 'ew=true' : `folder=${folder}`}`);
    await page.locator('.monaco-workbench .statusbar').waitFor();
    return new Workbench(page);
  }

  /** The status bar item. */
  get status(): Locator {
    return this.page.locator('[id="gpg-bridge.gpg-bridge-request.gpg-bridge.status"]');
  }

  /** Whether the whole status bar item is seen: what VS Code has no room for it moves below its bar. */
  async isStatusShown(): Promise<boolean> {
    const [box, { width, height }] = [await this.status.boundingBox(), this.page.viewportSize()!];
    return box !== null && box.x >= 0 && box.x + box.width <= width && box.y + box.height <= height;
  }

  /** Waits until the status bar item says these words. */
  async waitForStatus(words: string): Promise<void> {
    await this.status.filter({ hasText: `GPG: ${words}` }).waitFor();
  }

  /** The modal dialog with these words in it. */
  dialog(words: string): Locator {
    return this.page.locator('.monaco-dialog-box').filter({ hasText: words });
  }

  /** Waits for a dialog and presses one of its buttons. */
  async answer(words: string, button: string): Promise<void> {
    const dialog = this.dialog(words);
    await dialog.getByRole('button', { name: button, exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
  }

  /** The page that is shown in a web view: two frames, one in the other. */
  get webView(): FrameLocator {
    // While a page is drawn anew the next one is there beside it, not shown yet.
    return this.page.frameLocator('iframe.webview.ready').frameLocator('iframe#active-frame');
  }

  /** Writes the person's own settings anew, in the editor. */
  async replaceUserSettings(settings: Record<string, unknown>): Promise<void> {
    await this.runCommand('Preferences: Open User Settings (JSON)');
    await this.page.locator('.part.editor .monaco-editor .view-line').first().click();
    await this.page.keyboard.press('Control+A');
    await this.page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(JSON.stringify(settings))})`);
    await this.page.keyboard.press('Control+V');
    await this.page.keyboard.press('Control+S');
    await this.runCommand('View: Close Editor');
  }

  /** What was copied last. */
  clipboard(): Promise<string> {
    return this.page.evaluate('navigator.clipboard.readText()');
  }

  /** What is searched for in the Extensions view. */
  async extensionsQuery(): Promise<string> {
    return (await this.page.locator('.extensions-viewlet .view-line').first().textContent()) ?? '';
  }

  /** What a screen reader hears of the status bar item. */
  async spokenStatus(): Promise<string> {
    return (await this.status.locator('a').first().getAttribute('aria-label')) ?? '';
  }

  /** The words of the element that has the focus. */
  async focused(): Promise<string> {
    return this.page.locator('*:focus').evaluate((element) => element.textContent?.trim() ?? '');
  }

  /** Chooses Allow… in the menu; the host's side asks then. */
  async chooseAllow(): Promise<void> {
    await this.openMenu();
    await this.pick('Allow…');
  }

  /** The notification with these words in it. */
  notification(words: string | RegExp): Locator {
    return this.page.locator('.notifications-toasts .notification-list-item').filter({ hasText: words });
  }

  /** Runs a command of the palette by its title. */
  async runCommand(title: string): Promise<void> {
    await this.#inPalette(title, () => this.row(title).click({ timeout: ECHO_TIMEOUT_MS }));
  }

  /** The commands of ours that the palette has at the moment, in their order. */
  async commandsOffered(): Promise<string[]> {
    await this.#inPalette('GPG Bridge:', () => this.row('GPG Bridge:').waitFor({ timeout: ECHO_TIMEOUT_MS }));
    const rows = await this.page
      .locator('.quick-input-widget .monaco-list-row .label-name')
      .allTextContents();
    await this.escape();
    return rows
      .filter((title) => title.startsWith('GPG Bridge: '))
      .map((title) => title.slice('GPG Bridge: '.length))
      .sort();
  }

  /** Opens the palette as often as it takes: whatever else takes the keyboard meanwhile closes it. */
  async #inPalette(query: string, act: () => Promise<void>): Promise<void> {
    const input = this.page.locator('.quick-input-widget input.input').first();
    await vi.waitFor(async () => {
      await this.page.keyboard.press('F1');
      await input.fill(`>${query}`, { timeout: ECHO_TIMEOUT_MS });
      await act();
    }, PALETTE_TIMEOUT_MS);
  }

  /** The rows of the list that is open. */
  row(words: string): Locator {
    return this.page.locator('.quick-input-widget .monaco-list-row').filter({ hasText: words }).first();
  }

  /** Chooses a row of the list that is open. */
  async pick(words: string): Promise<void> {
    await this.row(words).click();
  }

  /** Puts a check mark before a row of a list in which several can be chosen. */
  async check(words: string): Promise<void> {
    await this.row(words).click();
  }

  /** Is content with what is checked. */
  async acceptChecked(): Promise<void> {
    await this.page.locator('.quick-input-widget').getByRole('button', { name: 'OK' }).click();
  }

  /** Closes what is open above the window. */
  async escape(): Promise<void> {
    await this.page.keyboard.press('Escape');
    await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
  }

  /** Clears all notifications away. */
  async dismissNotifications(): Promise<void> {
    await this.runCommand('Notifications: Clear All Notifications');
    await this.page
      .locator('.notifications-toasts .notification-list-item')
      .first()
      .waitFor({ state: 'detached' });
  }

  /** Commits all changes in the Source Control view. */
  async commitInView(message: string): Promise<void> {
    // In its corner, since a badge lies over its middle.
    await this.page.getByRole('tab', { name: /^Source Control/ }).click({ position: { x: 4, y: 4 } });
    await this.page.locator('.scm-view').getByText('view.txt').first().waitFor();
    await this.page.locator('.scm-editor .monaco-editor').first().click();
    await this.page.keyboard.type(message);
    await this.page.keyboard.press('Control+Enter');
  }

  /** Waits until the terminal shows these words. */
  async terminalText(words: string): Promise<void> {
    await this.#terminalRows.filter({ hasText: words }).waitFor();
  }

  /** Opens the menu of the status bar item. */
  async openMenu(row = 'Show log'): Promise<void> {
    await this.status.click();
    await this.row(row).waitFor();
  }

  /** Opens the integrated terminal, if it is not open, and returns when its shell is ready. */
  async openTerminal(): Promise<void> {
    if (!(await this.#terminal.isVisible())) await this.runCommand('Terminal: Create New Terminal');
    await this.terminalText('devbox $');
  }

  /** Types a line into the integrated terminal, on an empty screen. */
  async typeInTerminal(line: string): Promise<void> {
    for (const end = Date.now() + TYPING_TIMEOUT_MS; ; ) {
      // In its corner, since a notification may lie over its middle.
      await this.#terminal.click({ position: { x: 10, y: 10 } });
      await this.page.keyboard.press('Control+L');
      await this.page.keyboard.type(line);
      if (await this.#terminalEchoes(`devbox $ ${line}`)) break;
      if (Date.now() > end) throw new Error(`the terminal never showed what was typed: ${line}`);
      // A window that is still starting took the keyboard away: once more, on an empty line.
      await this.page.keyboard.press('Control+U');
    }
    await this.page.keyboard.press('Enter');
  }

  async #terminalEchoes(line: string): Promise<boolean> {
    // Long lines are wrapped.
    const shown = async () => (await this.#terminalRows.textContent())?.replace(/\s+/g, '');
    const expected = line.replace(/\s+/g, '');
    return vi
      .waitFor(async () => expect(await shown()).toContain(expected), { timeout: ECHO_TIMEOUT_MS })
      .then(
        () => true,
        () => false,
      );
  }

  get #terminalRows(): Locator {
    return this.page.locator('.terminal-wrapper.active .xterm-rows');
  }

  get #terminal(): Locator {
    return this.page.locator('.terminal-wrapper.active .xterm-screen');
  }

  /** Leaves the window as a person does, so that VS Code can say goodbye to its server. */
  async close(): Promise<void> {
    await this.page.goto('about:blank');
    await this.page.close();
  }
}
