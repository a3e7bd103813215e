import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { expect, it, onTestFinished } from 'vitest';
import { DIRECTORY_QUESTION, eventually, Story } from './story.ts';

const HOST_SETTING = 'gpgBridgeAgent.gpgBinDir';
const REMOTE_SETTING = 'gpgBridgeRequest.gpgBinDir';

const release = VSCODE_RELEASES.at(-1)!;

// One story, in the newest release: what can be wrong, what is said of it, and what mends it.
requireSystem('chromium', 'sshd')(`Troubles in VS Code ${release.vscode}`, () => {
  const story = new Story({ release, name: 'troubles', install: ({ request }) => [request] });

  /** Opens the menu, which has this row, and takes a picture of it. */
  async function expectCure(row: string, picture: string): Promise<void> {
    await story.window.openMenu();
    await story.window.row(row).waitFor();
    await story.photograph(picture);
  }

  it('says that the half of the computer is missing, by its name, and offers to install it', async () => {
    const window = await story.open();
    await window.notification('"Local GPG Bridge" is not installed').waitFor();
    await story.expectError('"Local GPG Bridge" is not installed or not enabled');
    await story.photograph('local-half-missing');
    await window.runCommand('GPG Bridge: Show Status');
    await window.webView.getByText('not installed, or not enabled').waitFor();
    await window.dismissNotifications();
    await story.photograph('local-half-missing-page');
    // No marketplace has it yet: the Extensions view says so, and can install a file.
    await window.webView.getByRole('button', { name: 'Install "Local GPG Bridge"' }).click();
    await eventually(async () =>
      expect(await window.extensionsQuery()).toBe('@id:gpg-bridge.gpg-bridge-agent'),
    );
    await story.photograph('local-half-offered');
  });

  it('goes on when the missing half is installed', async () => {
    await story.scene.server.install(story.extensions.agent);
    await story.window.waitForStatus('Allow…');
  });

  it('is not ready while the computer has no private key, and says so where there is nothing to choose', async () => {
    const { window } = story;
    await story.allow();
    await story.expectError('the GPG keyring of your computer has no private key');
    await window.runCommand('GPG Bridge: Copy Public Keys to This Remote');
    await window.pick('Choose keys…');
    await window.notification('or import one with "gpg --import".').waitFor();
    await story.photograph('no-keys');
    await window.dismissNotifications();
  });

  it('is ready by itself when there is one', async () => {
    await story.scene.createKeys();
    await story.window.waitForStatus('ready');
    await story.signAndVerify('Sign with the first key');
    await story.window.dismissNotifications();
  });

  it('names the setting of the computer that leads to no GnuPG, and opens it where it is', async () => {
    const { window } = story;
    const former = await story.changeUserSetting(HOST_SETTING, '/nowhere');
    await story.expectError('you have not confirmed the directory /nowhere');
    await window.openMenu();
    await window.pick('Confirm…');
    await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
    await story.expectError('your computer has no GnuPG', HOST_SETTING);
    await expectCure('Open the Setting of Your Computer', 'host-setting');
    await window.pick('Open the Setting of Your Computer');
    await window.page.getByText('GnuPG of this computer.').first().waitFor();
    expect(await window.page.locator('.settings-tabs-widget .action-item .checked').textContent()).toBe(
      'User',
    );
    await story.photograph('host-setting-opened');
    await story.changeUserSetting(HOST_SETTING, former);
    await story.expectError('you have not confirmed the directory', String(former));
    await window.openMenu();
    await window.pick('Confirm…');
    await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
    await window.waitForStatus('ready');
  });

  it('says that a path is too long for a socket, until it is not', async () => {
    const { scene, window } = story;
    const long = join(scene.dir, 'a-home-with-a-long-path-'.repeat(5));
    await mkdir(long, { mode: 0o700 });
    await scene.changeRemoteSetting(REMOTE_SETTING, await scene.useRemoteHome('long', long));
    await story.expectError("can't listen where this remote's gpg looks for its agent", 'its path has');
    await expectCure('Open a Terminal Here', 'path-too-long');
    await window.escape();
    await scene.useRemoteHome('long', scene.remote.dir);
    await window.waitForStatus('ready');
  });

  it('says that a home can not be written, until it can', async () => {
    const { scene, window } = story;
    const sealed = await scene.useRemoteHome('sealed', '/proc/sealed');
    await scene.changeRemoteSetting(REMOTE_SETTING, sealed);
    await story.expectError("can't listen where this remote's gpg looks for its agent", '/proc/sealed');
    await expectCure('Open a Terminal Here', 'home-sealed');
    await window.escape();
    await scene.useRemoteHome('sealed', scene.remote.dir);
    await window.waitForStatus('ready');
  });

  it('tells a wrong passphrase from a refusal', async () => {
    const { scene, window } = story;
    const refused = await story.commitInTerminal('Sign with a wrong passphrase', scene.keys.guarded);
    for (let attempt = 1; attempt <= 3; attempt++) await scene.typePassphrase('wrong');
    expect(await refused()).not.toBe(0);
    await window.openMenu();
    await window.pick('Recent operations');
    await window.row('a signature, wrong passphrase after').waitFor();
    await story.photograph('wrong-passphrase');
    await window.escape();
  });

  it('marks keys that are expired or revoked', async () => {
    const { scene, window } = story;
    await scene.host.createKey('Robin Old <old@example.org>', { expired: true });
    await scene.host.revokeKey(await scene.host.createKey('Robin Revoked <revoked@example.org>'));
    await window.runCommand('GPG Bridge: Copy Public Keys to This Remote');
    await window.pick('Choose keys…');
    for (const [name, mark] of [
      ['Robin Old', 'your own · expired'],
      ['Robin Revoked', 'your own · revoked'],
      ['Robin Quick', 'your own'],
    ] as const) {
      const row = window.row(name);
      expect(await row.textContent()).toContain(mark);
      expect(await row.getByRole('checkbox').isChecked()).toBe(mark === 'your own');
    }
    await story.photograph('keys-marked');
    await window.escape();
  });

  it('shows a page with the state of both halves, in every theme, which can be copied', async () => {
    const { scene, window } = story;
    await window.page.keyboard.press('Control+J');
    await window.runCommand('GPG Bridge: Show Status');
    const page = window.webView;
    await page.getByRole('heading', { name: 'GPG Bridge: ready' }).waitFor();
    for (const words of [
      await scene.host.socket('agent-extra-socket'),
      await scene.remoteSocket(),
      'this window',
      'revoked',
      'a signature, wrong passphrase after',
    ])
      await page.getByText(words).first().waitFor();
    await page.getByRole('button', { name: 'Copy' }).click();
    await window.notification('the status was copied').waitFor();
    expect(await window.clipboard()).toMatch(
      /^# GPG Bridge: ready\n[\s\S]*## Local GPG Bridge\n[\s\S]*## Remote GPG Bridge\n/,
    );
    await window.dismissNotifications();
    for (const [theme, shade] of [
      ['Default Light Modern', 'vs'],
      ['Default High Contrast', 'hc-black'],
      ['Default High Contrast Light', 'hc-light'],
      ['Default Dark Modern', 'vs-dark'],
    ] as const) {
      await scene.changeRemoteSetting('workbench.colorTheme', theme);
      await window.page.locator(`.monaco-workbench.${shade}`).waitFor();
      await story.photograph(`status-${shade}`);
    }
    await window.page.setViewportSize({ width: 480, height: 700 });
    await window.page.keyboard.press('Control+B');
    await story.photograph('status-narrow');
    await window.page.keyboard.press('Control+B');
    await window.runCommand('Extensions: Show Installed Extensions');
    // What is seen of a name in a narrow list is its beginning.
    await window.page
      .locator('.extension-list-item')
      .getByText(/^Local GPG Bridge$/)
      .waitFor();
    await window.page
      .locator('.extension-list-item')
      .getByText(/^Remote GPG Bridge$/)
      .waitFor();
    await story.photograph('extensions-narrow');
    await window.page.setViewportSize({ width: 1100, height: 700 });
  });

  it('leaves another forward its place, calmly, and takes it when the person says so', async () => {
    const { scene, window } = story;
    const sshd = await SshServer.start();
    onTestFinished(() => sshd.stop());
    const sockets = `${await scene.remoteSocket()}:${await scene.host.socket('agent-extra-socket')}`;
    const ssh = spawn('ssh', [
      '-F',
      sshd.configPath,
      '-R',
      sockets,
      SSH_HOST,
      'echo up; exec sleep infinity',
    ]);
    onTestFinished(() => void ssh.kill());
    await once(ssh.stdout, 'data');
    await window.waitForStatus('forwarded');
    expect(await window.spokenStatus()).toContain('Another forward serves this remote (sshd, process');
    await expectCure('Take over', 'forward');
    await window.escape();
    await window.webView.getByRole('heading', { name: 'GPG Bridge: forwarded' }).waitFor();
    await story.photograph('forward-page');
    await window.page.keyboard.press('Control+J');
    await story.signAndVerify('Sign through the other forward');
    await window.openMenu();
    await window.pick('Take over');
    await window.waitForStatus('ready');
    await story.signAndVerify('Sign after taking over');
  });

  it('says that the half of the remote is missing, and offers to install it', async () => {
    const { scene } = story;
    await scene.server.uninstall('gpg-bridge.gpg-bridge-request');
    await story.window.close();
    const window = await story.open();
    await window.notification('its other half, "Remote GPG Bridge", is not in').waitFor();
    await window.runCommand('GPG Bridge: Show Status of This Computer');
    await window.webView.getByText('not installed in this remote').waitFor();
    await story.photograph('remote-half-missing');
    await window.webView.getByRole('button', { name: 'Install "Remote GPG Bridge"' }).click();
    await eventually(async () =>
      expect(await window.extensionsQuery()).toBe('@id:gpg-bridge.gpg-bridge-request'),
    );
  });
});
