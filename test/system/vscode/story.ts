import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { VsCodeRelease } from '@gpg-bridge/test-support/code-server';
import { within } from '@gpg-bridge/test-support/within';
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, onTestFailed, vi } from 'vitest';
import { type PackedExtensions, packExtensions, Scene, type SceneOptions } from './scene.ts';
import { openProfile, REMOTE_NAME, startBrowser, Workbench } from './workbench.ts';

const SCREENSHOTS = fileURLToPath(new URL('../../../dist/screenshots/', import.meta.url));
const INSTALL_TIMEOUT_MS = 15 * 60_000;
export const STEP_TIMEOUT_MS = 3 * 60_000;
/** A page that hangs gives no picture, least of all after a failure, and a browser that hangs does not close. */
const PICTURE_TIMEOUT_MS = 30_000;
const LAST_PICTURE_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 30_000;

export const CONSENT_QUESTION = `Allow a remote that calls itself "${REMOTE_NAME}" to use your GPG keys?`;
export const DIRECTORY_QUESTION = 'Run the GnuPG programs in this directory?';

/** Waits until something that no event tells of is so. */
export const eventually = <T>(check: () => T | Promise<T>) =>
  vi.waitFor(check, { timeout: STEP_TIMEOUT_MS, interval: 100 });

/** How a story begins. */
export interface StoryOptions extends SceneOptions {
  release: VsCodeRelease;
  /** Where its extensions are packed and its pictures are kept. */
  name: string;
  /** Which extensions are there at first. */
  install(packed: PackedExtensions): string[] | Promise<string[]>;
}

/** Tests that go on where the one before left off, in one VS Code; call it inside of `describe`. */
export class Story {
  scene!: Scene;
  extensions!: PackedExtensions;
  profile!: BrowserContext;
  /** The window that is in use. */
  window!: Workbench;
  readonly #pictures: string;
  #browser: Browser | undefined;
  /** The first step that failed. */
  #failed: string | undefined;

  constructor({ release, name, install, ...options }: StoryOptions) {
    this.#pictures = join(SCREENSHOTS, name);
    vi.setConfig({ testTimeout: STEP_TIMEOUT_MS });
    beforeAll(async () => {
      this.extensions = await packExtensions(name);
      this.scene = await Scene.create(release, await install(this.extensions), options);
      this.#browser = await startBrowser(this.scene.server.url);
      this.profile = await openProfile(this.#browser);
      await mkdir(this.#pictures, { recursive: true });
    }, INSTALL_TIMEOUT_MS);
    beforeEach(({ task }) => {
      // What goes on from something that is not there would only wait for it, each step for minutes.
      if (this.#failed) throw new Error(`not tried: “${this.#failed}” failed, and this goes on from there`);
      onTestFailed(async () => {
        this.#failed ??= task.name;
        if (this.window) await this.photograph('failed', LAST_PICTURE_TIMEOUT_MS);
      });
    });
    afterAll(async () => {
      try {
        // One that does not close is ended by Playwright together with this process.
        const closed = this.#browser?.close();
        if (closed) await within(CLOSE_TIMEOUT_MS, closed, 'the browser did not close');
      } finally {
        await this.scene?.remove();
      }
    });
  }

  /** Opens a window, which is in use from then on. */
  async open(): Promise<Workbench> {
    this.window = await Workbench.open(this.profile, this.scene.repository);
    return this.window;
  }

  /** Changes one of the person's own settings, as a person does; returns the former value. */
  async changeUserSetting(name: string, value: unknown): Promise<unknown> {
    const settings = this.scene.userSettings();
    await this.window.replaceUserSettings({ ...settings, [name]: value });
    await eventually(() => expect(this.scene.userSettings()[name]).toBe(value));
    return settings[name];
  }

  /** Allows the remote, which asked for nothing yet, and confirms the directory of the host's programs. */
  async allow(): Promise<void> {
    await this.window.chooseAllow();
    await this.window.answer(CONSENT_QUESTION, 'Allow');
    await this.window.answer(DIRECTORY_QUESTION, 'Use This Directory');
  }

  photograph(name: string, timeout = PICTURE_TIMEOUT_MS): Promise<Buffer> {
    const path = join(this.#pictures, `${name}.png`);
    return this.window.page.screenshot({ path, timeout });
  }

  /** Types a commit into the terminal; the returned function waits for its exit status. */
  async commitInTerminal(subject: string, signingKey = ''): Promise<() => Promise<number>> {
    await writeFile(join(this.scene.repository, 'notes.txt'), subject);
    await this.window.openTerminal();
    await this.window.typeInTerminal(`git add . && git commit -q -S${signingKey} -m '${subject}'`);
    return () => this.scene.exitStatus(subject);
  }

  /** Looks whether the newest commit is this one, with a good signature. */
  async expectSignedCommit(subject: string, signer: string): Promise<void> {
    expect(await this.scene.headSubject()).toBe(subject);
    expect(await this.scene.verifyHead()).toContain(`Good signature from "${signer}" [ultimate]`);
  }

  /** Signs a commit in the terminal, and verifies it. */
  async signAndVerify(subject: string): Promise<void> {
    const committed = await this.commitInTerminal(subject);
    expect(await committed()).toBe(0);
    await this.expectSignedCommit(subject, 'Robin Quick <robin@example.org>');
  }

  /** What the status bar item says is wrong; no raw text of a program or of the system is in it. */
  async expectError(...words: string[]): Promise<void> {
    await this.window.waitForStatus('error');
    for (const part of words)
      await eventually(async () => expect(await this.window.spokenStatus()).toContain(part));
    expect(await this.window.spokenStatus()).not.toMatch(/command '.*' not found|E[A-Z]{4,}|--takeover/);
  }
}
