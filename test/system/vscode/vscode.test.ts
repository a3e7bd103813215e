import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask } from '@gpg-bridge/core/assuan/ask';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { socketOwners } from '@gpg-bridge/core/remote/socket-owner';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it, onTestFailed, vi } from 'vitest';
import { PASSPHRASE, packExtensions, Scene } from './scene.ts';
import { openProfile, REMOTE_NAME, startBrowser, Workbench } from './workbench.ts';

const SCREENSHOTS = fileURLToPath(new URL('../../../dist/screenshots/', import.meta.url));
const INSTALL_TIMEOUT_MS = 15 * 60_000;
const STEP_TIMEOUT_MS = 3 * 60_000;
const CONSENT_QUESTION = `Allow a remote that calls itself "${REMOTE_NAME}" to use your GPG keys?`;
const DIRECTORY_QUESTION = 'Run the GnuPG programs in this directory?';
/** Longer than 0.1.0 waited before it asked by itself. */
const QUIET_MS = 8_000;

/** Waits until something that no event tells of is so. */
const eventually = <T>(check: () => T | Promise<T>) =>
  vi.waitFor(check, { timeout: STEP_TIMEOUT_MS, interval: 100 });

// One story for each release: every step goes on where the one before left off.
for (const release of VSCODE_RELEASES) {
  requireSystem('chromium')(`VS Code ${release.vscode}`, () => {
    vi.setConfig({ testTimeout: STEP_TIMEOUT_MS });
    let scene: Scene;
    let browser: Browser;
    let profile: BrowserContext;
    /** The window that is in use. */
    let window: Workbench;

    beforeAll(async () => {
      scene = await Scene.create(release, await packExtensions());
      browser = await startBrowser(scene.server.url);
      profile = await openProfile(browser);
      await mkdir(join(SCREENSHOTS, release.vscode), { recursive: true });
    }, INSTALL_TIMEOUT_MS);

    beforeEach(() => onTestFailed(async () => void (await photograph('failed'))));

    afterAll(async () => {
      await browser?.close();
      await scene?.remove();
    });

    const photograph = (name: string) =>
      window.page.screenshot({ path: join(SCREENSHOTS, release.vscode, `${name}.png`) });

    /** Types a commit into the terminal; the returned function waits for its exit status. */
    async function commitInTerminal(subject: string, signingKey = ''): Promise<() => Promise<number>> {
      await writeFile(join(scene.repository, 'notes.txt'), subject);
      await window.openTerminal();
      await window.typeInTerminal(`git add . && git commit -q -S${signingKey} -m '${subject}'`);
      return () => scene.exitStatus(subject);
    }

    async function expectSignedCommit(subject: string, signer: string): Promise<void> {
      expect(await scene.headSubject()).toBe(subject);
      expect(await scene.verifyHead()).toContain(`Good signature from "${signer}" [ultimate]`);
    }

    async function signAndVerify(subject: string): Promise<void> {
      const committed = await commitInTerminal(subject);
      expect(await committed()).toBe(0);
      await expectSignedCommit(subject, 'Robin Quick <robin@example.org>');
    }

    it('opens nothing modal by itself: the status bar and one notification lead to it', async () => {
      window = await Workbench.open(profile, scene.repository);
      await window.waitForStatus('Allow…');
      await window.notification('once you allow it').waitFor();
      await photograph('invitation');
      await window.page.waitForTimeout(QUIET_MS);
      expect(await window.page.locator('.monaco-dialog-box').count()).toBe(0);
      expect(await scene.remote.gpgOk(['--list-keys'])).toBe('');
      await window.dismissNotifications();
    });

    it('runs nothing and tells nothing of the host to an extension of the remote', async () => {
      await window.runCommand('Hostile: Attack');
      const seen = await eventually(() => scene.hostileReport() ?? Promise.reject(new Error('not done')));
      expect(seen).toHaveLength(64);
      for (const answer of seen.slice(0, 60))
        expect(answer).toEqual({ ok: true, value: { version: expect.any(String), permission: 'undecided' } });
      for (const answer of seen.slice(60))
        expect(answer).toMatchObject({ ok: false, error: { code: 'CONSENT_REQUIRED' } });
      expect(scene.trapSprung).toBe(false);
      expect(existsSync(await scene.host.socket('agent-extra-socket'))).toBe(false);
      expect(await window.page.locator('.monaco-dialog-box').count()).toBe(0);
    });

    it('grants nothing to a stray key', async () => {
      await window.chooseAllow();
      await window.dialog(CONSENT_QUESTION).waitFor();
      await photograph('consent');
      expect(await window.focused()).toBe('Not Now');
      await window.page.keyboard.press('Enter');
      await window.dialog(CONSENT_QUESTION).waitFor({ state: 'detached' });
      await window.waitForStatus('Allow…');
      expect(await scene.remote.gpgOk(['--list-keys'])).toBe('');
    });

    it('runs nothing from a directory that the person has not confirmed', async () => {
      await window.chooseAllow();
      await window.answer(CONSENT_QUESTION, 'Allow');
      await window.dialog(DIRECTORY_QUESTION).waitFor();
      expect(await window.focused()).toBe('Do Not Use');
      await photograph('confirm-directory');
      expect(existsSync(await scene.host.socket('agent-extra-socket'))).toBe(false);
      await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
      await window.waitForStatus('ready');
    });

    it('brings the public halves of one’s own keys, trusted, and no others', async () => {
      await window.notification('2 keys added').waitFor();
      const trust = await scene.remote.gpgOk(['--export-ownertrust']);
      expect(trust).toContain(`${scene.keys.quick}:6:`);
      expect(trust).toContain(`${scene.keys.guarded}:6:`);
      expect(await scene.remote.gpgOk(['--list-keys'])).not.toContain('kim@example.net');
    });

    it('signs a commit in the integrated terminal', async () => {
      await signAndVerify('Sign from the terminal');
      await window.dismissNotifications();
      await window.typeInTerminal('git log -1 --show-signature | cat');
      await window.terminalText('Good signature');
      await photograph('signed');
    });

    it('signs a commit in the Source Control view', async () => {
      await writeFile(join(scene.repository, 'view.txt'), 'view');
      await window.commitInView('Sign from the view');
      await eventually(async () => expect(await scene.headSubject()).toBe('Sign from the view'));
      await expectSignedCommit('Sign from the view', 'Robin Quick <robin@example.org>');
    });

    it('says when a PIN or touch is being waited for', async () => {
      const committed = await commitInTerminal('Sign with a passphrase', scene.keys.guarded);
      await window.waitForStatus('waiting for you');
      const notice = window.notification('Waiting for your PIN or touch');
      await notice.waitFor();
      await eventually(async () =>
        expect(await notice.textContent()).toContain(
          `a signature with the key of Robin Guarded <guarded@example.org> for "${REMOTE_NAME}"`,
        ),
      );
      await photograph('waiting');
      await scene.typePassphrase(PASSPHRASE);
      expect(await committed()).toBe(0);
      await expectSignedCommit('Sign with a passphrase', 'Robin Guarded <guarded@example.org>');
      await notice.waitFor({ state: 'detached' });
      await window.waitForStatus('ready');
    });

    it('copies chosen public keys through the command palette', async () => {
      await window.runCommand('GPG Bridge: Copy Public Keys to This Remote');
      await window.pick('Choose keys…');
      await window.row('Kim Friend').waitFor();
      await window.check('Kim Friend');
      await photograph('choose-keys');
      await window.acceptChecked();
      await window.notification('1 key added, 2 keys unchanged').waitFor();
      await window.notification('copying public keys').waitFor({ state: 'detached' });
      await photograph('keys-copied');
      await window.dismissNotifications();
      expect(await scene.remote.gpgOk(['--list-keys'])).toContain('kim@example.net');
      expect(await scene.remote.gpgOk(['--export-ownertrust'])).not.toContain(scene.keys.friend);
    });

    it('stops and starts from the status menu', async () => {
      const socket = await scene.remoteSocket();
      await window.openMenu();
      await photograph('menu');
      expect(
        await window.page.locator('.quick-input-widget .monaco-list-row.focused').textContent(),
      ).not.toContain('Stop');
      await window.pick('Stop in this remote');
      await window.waitForStatus('off');
      await eventually(() => expect(existsSync(socket)).toBe(false));
      // The remote's gpg now starts an agent of its own, which has no key, and leaves it in the way.
      const refused = await commitInTerminal('Not signed');
      expect(await refused()).not.toBe(0);
      expect(existsSync(socket)).toBe(true);
      await window.openMenu();
      await window.pick('Start…');
      await window.dialog('Start GPG Bridge again?').waitFor();
      expect(await window.focused()).toBe('Leave Stopped');
      await photograph('start-again');
      await window.answer('Start GPG Bridge again?', 'Start');
      await window.waitForStatus('ready');
      await signAndVerify('Sign after a new start');
    });

    it('tells what the keys were used for', async () => {
      await window.openMenu();
      await window.pick('Recent operations');
      await window.row('a signature, done').waitFor();
      await photograph('operations');
      expect(await window.row('a signature, done').textContent()).toContain(
        'Robin Quick <robin@example.org>',
      );
      await window.escape();
      expect(scene.recordedUses()).toEqual(
        expect.arrayContaining([expect.objectContaining({ command: 'PKSIGN', outcome: 'ok' })]),
      );
    });

    it('shares the socket with a second window, which takes over when the first is closed', async () => {
      const former = window;
      window = await Workbench.open(profile, scene.repository);
      await window.waitForStatus('shared');
      await photograph('shared');
      await signAndVerify('Sign from the second window');
      await former.close();
      await window.waitForStatus('ready');
      await signAndVerify('Sign after the first window');
    });

    it('has one truth in two windows: waiting, recent operations, stop and start', async () => {
      const owner = window;
      const other = await Workbench.open(profile, scene.repository);
      await other.waitForStatus('shared');
      await scene.host.killAgent(); // it remembers the passphrase
      const committed = await commitInTerminal('Wait in both windows', scene.keys.guarded);
      await owner.waitForStatus('waiting for you');
      await other.waitForStatus('waiting for you');
      await other.notification('Waiting for your PIN or touch').waitFor();
      window = other;
      await photograph('waiting-shared');
      await scene.typePassphrase(PASSPHRASE);
      expect(await committed()).toBe(0);
      await other.waitForStatus('shared');
      await other.openMenu();
      await other.pick('Recent operations');
      await other.row('a signature, done').waitFor();
      expect(await other.row('a signature, done').textContent()).toContain('Robin Guarded');
      await other.escape();
      await other.openMenu();
      await other.pick('Stop on this computer');
      await other.waitForStatus('off');
      await owner.waitForStatus('off');
      await owner.openMenu();
      await owner.pick('Start…');
      await owner.answer('Start GPG Bridge again?', 'Start');
      await owner.waitForStatus('ready');
      await other.waitForStatus('shared');
      await other.close();
      window = owner;
      // Until it is gone it would take over at the crash that follows.
      await eventually(async () => expect(await scene.extensionHosts()).toBe(1));
    });

    it('tests signing step by step', async () => {
      await window.openMenu();
      await window.pick('Test signing');
      await window.row('Verification').waitFor();
      await photograph('test-signing');
      expect(await window.row('Verification').textContent()).toContain('Good signature from');
      await window.escape();
    });

    it('is readable in a narrow window', async () => {
      const size = window.page.viewportSize()!;
      await window.page.setViewportSize({ width: 480, height: 700 });
      await photograph('narrow');
      const box = (await window.status.boundingBox())!;
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(480);
      await window.page.setViewportSize(size);
    });

    it('pauses from the menu', async () => {
      await window.openMenu();
      await window.pick('Pause…');
      await window.pick('For 10 minutes');
      await window.waitForStatus('paused');
      await photograph('paused');
      await window.openMenu();
      await window.pick('Start…');
      await window.answer('Start GPG Bridge again?', 'Start');
      await window.waitForStatus('ready');
    });

    it('says that the remote has no gpg, helps, and is well again when that is mended', async () => {
      const former = await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', '/nowhere');
      await window.waitForStatus('error');
      await window.openMenu();
      await window.row('Open the Setting of This Remote').waitFor();
      await photograph('error-remote');
      await window.escape();
      await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', former);
      await window.waitForStatus('ready');
    });

    it('comes back after a crash of the extension host', async () => {
      const socket = await scene.remoteSocket();
      const [owner] = await socketOwners(new DirectOperations(), socket);
      process.kill(owner!.pid, 'SIGKILL');
      await eventually(async () => {
        const [next] = await socketOwners(new DirectOperations(), socket);
        expect(next).toBeDefined();
        expect(next!.pid).not.toBe(owner!.pid);
      });
      await window.waitForStatus('ready');
      await signAndVerify('Sign after a crash');
    });

    it('refuses, readably, once the permission is taken back', async () => {
      await window.openMenu();
      await window.pick('What is allowed');
      await window.row(REMOTE_NAME).waitFor();
      await photograph('allowed');
      await window.pick(REMOTE_NAME);
      await window.pick('Never allow');
      await window.waitForStatus('off');
      const refused = await commitInTerminal('Refused');
      expect(await refused()).not.toBe(0);
      await window.typeInTerminal('echo hello | gpg --clear-sign');
      await window.terminalText('Operation cancelled');
      await window.notification('you chose never to allow').waitFor();
      await photograph('never');
      const client = connect(await scene.remoteSocket());
      const { responses } = await ask(client, ['GETINFO version'], { timeoutMs: STEP_TIMEOUT_MS });
      client.destroy();
      expect(responses[0]?.bytes.toString()).toContain(`you chose never to allow ${REMOTE_NAME} to use them`);
    });

    it('works again when the person allows it from the menu', async () => {
      await window.dismissNotifications();
      await window.openMenu();
      await window.pick('What is allowed');
      await window.pick(REMOTE_NAME);
      await window.pick('Allow…');
      await window.answer(CONSENT_QUESTION, 'Only Now');
      await window.waitForStatus('ready');
      await signAndVerify('Sign with a new permission');
    });

    it('has a walkthrough that ticks itself', async () => {
      await window.runCommand('Welcome: Open Walkthrough...');
      await window.pick('Get started with GPG Bridge');
      await window.page.getByText('Sign something').first().waitFor();
      await window.page.keyboard.press('Control+J');
      await window.page.keyboard.press('Control+B');
      // The picture is in a web view: two frames, one in the other.
      await window.page
        .frameLocator('iframe.webview')
        .frameLocator('iframe')
        .locator('svg')
        .first()
        .waitFor();
      // Everything was done by now.
      await eventually(async () =>
        expect(
          await window.page.locator('.step-list-container .codicon-getting-started-step-checked').count(),
        ).toBe(4),
      );
      await photograph('walkthrough');
    });

    it('has settings with titles, and halves that can be told apart', async () => {
      await window.runCommand('Extensions: Show Enabled Extensions');
      await window.page
        .locator('.extension-list-item')
        .getByText('GPG Bridge: This Computer')
        .first()
        .waitFor();
      await window.runCommand('Preferences: Open Settings (UI)');
      await window.page.keyboard.type('gpgBridge');
      await window.page.getByText('GnuPG of this computer.').first().waitFor();
      await photograph('settings');
    });

    it('leaves nothing behind when the last window is closed', async () => {
      const socket = await scene.remoteSocket();
      await window.close();
      await eventually(() => {
        expect(existsSync(socket)).toBe(false);
        expect(existsSync(join(dirname(socket), 'S.gpg-bridge'))).toBe(false);
      });
    });
  });
}
