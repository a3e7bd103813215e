import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { ask } from '@gpg-bridge/core/assuan/ask';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { socketOwners } from '@gpg-bridge/core/remote/socket-owner';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, expect, it } from 'vitest';
import { PASSPHRASE } from './scene.ts';
import { CONSENT_QUESTION, DIRECTORY_QUESTION, eventually, STEP_TIMEOUT_MS, Story } from './story.ts';
import { REMOTE_NAME, Workbench } from './workbench.ts';

/** Longer than 0.1.0 waited before it asked by itself. */
const QUIET_MS = 8_000;

// One story for each release: every step goes on where the one before left off.
for (const release of VSCODE_RELEASES) {
  requireSystem('chromium')(`VS Code ${release.vscode}`, () => {
    const story = new Story({
      release,
      name: release.vscode,
      install: async ({ agent, request, pack, own }) => [agent, request, pack, await own('hostile')],
    });
    const photograph = (name: string) => story.photograph(name);

    beforeAll(() => story.scene.createKeys());

    it('opens nothing modal by itself: the status bar and one notification lead to it', async () => {
      await story.open();
      await story.window.waitForStatus('Allow…');
      await story.window.notification('once you allow it').waitFor();
      await photograph('invitation');
      await story.window.page.waitForTimeout(QUIET_MS);
      expect(await story.window.page.locator('.monaco-dialog-box').count()).toBe(0);
      expect(await story.scene.remote.gpgOk(['--list-keys'])).toBe('');
      await story.window.dismissNotifications();
    });

    it('runs nothing and tells nothing of the host to an extension of the remote', async () => {
      await story.window.runCommand('Hostile: Attack');
      const seen = await eventually(
        () => story.scene.hostileReport() ?? Promise.reject(new Error('not done')),
      );
      expect(seen).toHaveLength(64);
      for (const answer of seen.slice(0, 60))
        expect(answer).toEqual({ ok: true, value: { version: expect.any(String), permission: 'undecided' } });
      for (const answer of seen.slice(60))
        expect(answer).toMatchObject({ ok: false, error: { code: 'CONSENT_REQUIRED' } });
      expect(story.scene.trapSprung).toBe(false);
      expect(existsSync(await story.scene.host.socket('agent-extra-socket'))).toBe(false);
      expect(await story.window.page.locator('.monaco-dialog-box').count()).toBe(0);
    });

    it('grants nothing to a stray key', async () => {
      await story.window.chooseAllow();
      await story.window.dialog(CONSENT_QUESTION).waitFor();
      await photograph('consent');
      expect(await story.window.focused()).toBe('Not Now');
      await story.window.page.keyboard.press('Enter');
      await story.window.dialog(CONSENT_QUESTION).waitFor({ state: 'detached' });
      await story.window.waitForStatus('Allow…');
      expect(await story.scene.remote.gpgOk(['--list-keys'])).toBe('');
    });

    it('runs nothing from a directory that the person has not confirmed', async () => {
      await story.window.chooseAllow();
      await story.window.answer(CONSENT_QUESTION, 'Allow');
      await story.window.dialog(DIRECTORY_QUESTION).waitFor();
      expect(await story.window.focused()).toBe('Do Not Use');
      await photograph('confirm-directory');
      expect(existsSync(await story.scene.host.socket('agent-extra-socket'))).toBe(false);
      await story.window.answer(DIRECTORY_QUESTION, 'Use This Directory');
      await story.window.waitForStatus('ready');
    });

    it('brings the public halves of one’s own keys, trusted, and no others', async () => {
      await story.window.notification('2 keys added').waitFor();
      const trust = await story.scene.remote.gpgOk(['--export-ownertrust']);
      expect(trust).toContain(`${story.scene.keys.quick}:6:`);
      expect(trust).toContain(`${story.scene.keys.guarded}:6:`);
      expect(await story.scene.remote.gpgOk(['--list-keys'])).not.toContain('kim@example.net');
    });

    it('signs a commit in the integrated terminal', async () => {
      await story.signAndVerify('Sign from the terminal');
      await story.window.dismissNotifications();
      await story.window.typeInTerminal('git log -1 --show-signature | cat');
      await story.window.terminalText('Good signature');
      await photograph('signed');
    });

    it('signs a commit in the Source Control view', async () => {
      await writeFile(join(story.scene.repository, 'view.txt'), 'view');
      await story.window.commitInView('Sign from the view');
      await eventually(async () => expect(await story.scene.headSubject()).toBe('Sign from the view'));
      await story.expectSignedCommit('Sign from the view', 'Robin Quick <robin@example.org>');
    });

    it('says when a PIN or touch is being waited for', async () => {
      const committed = await story.commitInTerminal('Sign with a passphrase', story.scene.keys.guarded);
      await story.window.waitForStatus('waiting for you');
      const notice = story.window.notification('Waiting for your PIN or touch');
      await notice.waitFor();
      await eventually(async () =>
        expect(await notice.textContent()).toContain(
          `a signature with the key of Robin Guarded <guarded@example.org> for "${REMOTE_NAME}"`,
        ),
      );
      await photograph('waiting');
      await story.scene.typePassphrase(PASSPHRASE);
      expect(await committed()).toBe(0);
      await story.expectSignedCommit('Sign with a passphrase', 'Robin Guarded <guarded@example.org>');
      await notice.waitFor({ state: 'detached' });
      await story.window.waitForStatus('ready');
    });

    it('copies chosen public keys through the command palette', async () => {
      await story.window.runCommand('GPG Bridge: Copy Public Keys to This Remote');
      await story.window.pick('Choose keys…');
      await story.window.row('Kim Friend').waitFor();
      await story.window.check('Kim Friend');
      await photograph('choose-keys');
      await story.window.acceptChecked();
      await story.window.notification('1 key added, 2 keys unchanged').waitFor();
      await story.window.notification('copying public keys').waitFor({ state: 'detached' });
      await photograph('keys-copied');
      await story.window.dismissNotifications();
      expect(await story.scene.remote.gpgOk(['--list-keys'])).toContain('kim@example.net');
      expect(await story.scene.remote.gpgOk(['--export-ownertrust'])).not.toContain(story.scene.keys.friend);
    });

    it('stops and starts from the status menu', async () => {
      const socket = await story.scene.remoteSocket();
      await story.window.openMenu();
      await photograph('menu');
      expect(
        await story.window.page.locator('.quick-input-widget .monaco-list-row.focused').textContent(),
      ).not.toContain('Stop');
      await story.window.pick('Stop in this remote');
      await story.window.waitForStatus('off');
      await eventually(() => expect(existsSync(socket)).toBe(false));
      // The remote's gpg now starts an agent of its own, which has no key, and leaves it in the way.
      const refused = await story.commitInTerminal('Not signed');
      expect(await refused()).not.toBe(0);
      expect(existsSync(socket)).toBe(true);
      await story.window.openMenu();
      await story.window.pick('Start…');
      await story.window.dialog('Start GPG Bridge again?').waitFor();
      expect(await story.window.focused()).toBe('Leave Stopped');
      await photograph('start-again');
      await story.window.answer('Start GPG Bridge again?', 'Start');
      await story.window.waitForStatus('ready');
      await story.signAndVerify('Sign after a new start');
    });

    it('tells what the keys were used for', async () => {
      await story.window.openMenu();
      await story.window.pick('Recent operations');
      await story.window.row('a signature, done').waitFor();
      await photograph('operations');
      expect(await story.window.row('a signature, done').textContent()).toContain(
        'Robin Quick <robin@example.org>',
      );
      await story.window.escape();
      expect(story.scene.recordedUses()).toEqual(
        expect.arrayContaining([expect.objectContaining({ command: 'PKSIGN', outcome: 'ok' })]),
      );
    });

    it('shares the socket with a second window, which takes over when the first is closed', async () => {
      const former = story.window;
      await story.open();
      await story.window.waitForStatus('shared');
      await photograph('shared');
      await story.signAndVerify('Sign from the second window');
      await former.close();
      await story.window.waitForStatus('ready');
      await story.signAndVerify('Sign after the first window');
    });

    it('has one truth in two windows: waiting, recent operations, stop and start', async () => {
      const owner = story.window;
      const other = await Workbench.open(story.profile, story.scene.repository);
      await other.waitForStatus('shared');
      await story.scene.host.killAgent(); // it remembers the passphrase
      const committed = await story.commitInTerminal('Wait in both windows', story.scene.keys.guarded);
      await owner.waitForStatus('waiting for you');
      await other.waitForStatus('waiting for you');
      await other.notification('Waiting for your PIN or touch').waitFor();
      story.window = other;
      await photograph('waiting-shared');
      await story.scene.typePassphrase(PASSPHRASE);
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
      story.window = owner;
      // Until it is gone it would take over at the crash that follows.
      await eventually(async () => expect(await story.scene.extensionHosts()).toBe(1));
    });

    it('tests signing step by step', async () => {
      await story.window.openMenu();
      await story.window.pick('Test signing');
      await story.window.row('Verification').waitFor();
      await photograph('test-signing');
      expect(await story.window.row('Verification').textContent()).toContain('Good signature from');
      await story.window.escape();
    });

    it('is readable in a narrow window', async () => {
      const size = story.window.page.viewportSize()!;
      await story.window.page.setViewportSize({ width: 480, height: 700 });
      await photograph('narrow');
      expect(await story.window.isStatusShown()).toBe(true);
      await story.window.page.setViewportSize(size);
    });

    it('pauses from the menu', async () => {
      await story.window.openMenu();
      await story.window.pick('Pause…');
      await story.window.pick('For 10 minutes');
      await story.window.waitForStatus('paused');
      await photograph('paused');
      await story.window.openMenu();
      await story.window.pick('Start…');
      await story.window.answer('Start GPG Bridge again?', 'Start');
      await story.window.waitForStatus('ready');
    });

    it('says that the remote has no gpg, helps, and is well again when that is mended', async () => {
      const former = await story.scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', '/nowhere');
      await story.window.waitForStatus('error');
      await story.window.openMenu();
      await story.window.row('Open the Setting of This Remote').waitFor();
      await photograph('error-remote');
      await story.window.escape();
      await story.scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', former);
      await story.window.waitForStatus('ready');
    });

    it('comes back after a crash of the extension host', async () => {
      const socket = await story.scene.remoteSocket();
      const [owner] = await socketOwners(new DirectOperations(), socket);
      process.kill(owner!.pid, 'SIGKILL');
      await eventually(async () => {
        const [next] = await socketOwners(new DirectOperations(), socket);
        expect(next).toBeDefined();
        expect(next!.pid).not.toBe(owner!.pid);
      });
      await story.window.waitForStatus('ready');
      await story.signAndVerify('Sign after a crash');
    });

    it('refuses, readably, once the permission is taken back', async () => {
      await story.window.openMenu();
      await story.window.pick('What is allowed');
      await story.window.row(REMOTE_NAME).waitFor();
      await photograph('allowed');
      await story.window.pick(REMOTE_NAME);
      await story.window.pick('Never allow');
      await story.window.waitForStatus('off');
      const refused = await story.commitInTerminal('Refused');
      expect(await refused()).not.toBe(0);
      await story.window.typeInTerminal('echo hello | gpg --clear-sign');
      await story.window.terminalText('Operation cancelled');
      await story.window.notification('you chose never to allow').waitFor();
      await photograph('never');
      const client = connect(await story.scene.remoteSocket());
      const { responses } = await ask(client, ['GETINFO version'], { timeoutMs: STEP_TIMEOUT_MS });
      client.destroy();
      expect(responses[0]?.bytes.toString()).toContain(`you chose never to allow ${REMOTE_NAME} to use them`);
    });

    it('works again when the person allows it from the menu', async () => {
      await story.window.dismissNotifications();
      await story.window.openMenu();
      await story.window.pick('What is allowed');
      await story.window.pick(REMOTE_NAME);
      await story.window.pick('Allow…');
      await story.window.answer(CONSENT_QUESTION, 'Only Now');
      await story.window.waitForStatus('ready');
      await story.signAndVerify('Sign with a new permission');
    });

    it('has a walkthrough that ticks itself', async () => {
      await story.window.runCommand('Welcome: Open Walkthrough...');
      await story.window.pick('Get started with GPG Bridge');
      await story.window.page.getByText('Sign something').first().waitFor();
      await story.window.page.keyboard.press('Control+J');
      await story.window.page.keyboard.press('Control+B');
      // The picture is in a web view: two frames, one in the other.
      await story.window.page
        .frameLocator('iframe.webview')
        .frameLocator('iframe#active-frame')
        .locator('svg')
        .first()
        .waitFor();
      // Everything was done by now.
      await eventually(async () =>
        expect(
          await story.window.page
            .locator('.step-list-container .codicon-getting-started-step-checked')
            .count(),
        ).toBe(4),
      );
      await photograph('walkthrough');
    });

    it('has settings with titles, and halves that can be told apart', async () => {
      await story.window.runCommand('Extensions: Show Enabled Extensions');
      await story.window.page.locator('.extension-list-item').getByText('Local GPG Bridge').first().waitFor();
      await story.window.runCommand('Preferences: Open Settings (UI)');
      await story.window.page.keyboard.type('gpgBridge');
      await story.window.page.getByText('GnuPG of this computer.').first().waitFor();
      await photograph('settings');
    });

    it('leaves nothing behind when the last window is closed', async () => {
      const socket = await story.scene.remoteSocket();
      await story.window.close();
      await eventually(() => {
        expect(existsSync(socket)).toBe(false);
        expect(existsSync(join(dirname(socket), 'S.gpg-bridge'))).toBe(false);
      });
    });
  });
}
