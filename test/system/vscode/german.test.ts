import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, expect, it } from 'vitest';
import { PASSPHRASE } from './scene.ts';
import { eventually, Story } from './story.ts';
import { REMOTE_NAME } from './workbench.ts';

const release = VSCODE_RELEASES.at(-1)!;

// One story, in the newest release: a VS Code whose language is German. Its own words stay English, as the language
// pack has none of them; ours come from our bundles, in both extensions and in their manifests.
requireSystem('chromium')(`German in VS Code ${release.vscode}`, () => {
  const story = new Story({
    release,
    name: 'german',
    locale: 'de',
    install: ({ agent, request, pack }) => [agent, request, pack],
  });

  beforeAll(() => story.scene.createKeys());

  it('invites and asks', async () => {
    const window = await story.open();
    await window.waitForStatus('Erlauben…');
    await window.notification('sobald Sie es erlauben').waitFor();
    expect(await window.spokenStatus()).toContain('GPG Bridge: Erlauben…. ');
    await window.dismissNotifications();
    await window.openMenu('Protokoll zeigen');
    await window.row('Für eine Zeit erlauben…').waitFor();
    await story.photograph('menu');
    await window.pick('Erlauben…');
    const question = `Einem Remote, der sich „${REMOTE_NAME}“ nennt, Ihre GPG-Schlüssel erlauben?`;
    await window.dialog(question).waitFor();
    expect(await window.focused()).toBe('Nicht jetzt');
    await story.photograph('consent');
    await window.answer(question, 'Erlauben');
    await window.answer('Die GnuPG-Programme in diesem Verzeichnis benutzen?', 'Verzeichnis benutzen');
    await window.waitForStatus('bereit');
    await window.notification('2 Schlüssel hinzugefügt').waitFor();
    await window.dismissNotifications();
  });

  it('tests signing', async () => {
    const { window } = story;
    await window.openMenu('Protokoll zeigen');
    await window.pick('Signieren testen');
    await window.row('Prüfung').waitFor();
    await window.page.locator('.quick-input-title').getByText('Signieren geht in diesem Remote').waitFor();
    await story.photograph('test-signing');
    await window.escape();
  });

  it('says what is waited for', async () => {
    const { scene, window } = story;
    const committed = await story.commitInTerminal('Auf Deutsch', scene.keys.guarded);
    await window.waitForStatus('wartet auf Sie');
    await window
      .notification('Warten auf Ihre PIN oder Berührung')
      .filter({ hasText: `mit dem Schlüssel von Robin Guarded <guarded@example.org> für „${REMOTE_NAME}“` })
      .waitFor();
    await story.photograph('waiting');
    await scene.typePassphrase(PASSPHRASE);
    expect(await committed()).toBe(0);
    await window.page.keyboard.press('Control+J');
  });

  it('has the page, the commands, the settings and the walkthrough', async () => {
    const { window } = story;
    const offered = ['Menü öffnen', 'Status zeigen', 'Was auf diesem Computer erlaubt ist'];
    await eventually(async () =>
      expect(await window.commandsOffered()).toEqual(expect.arrayContaining(offered)),
    );
    await window.runCommand('GPG Bridge: Status zeigen');
    await window.webView.getByRole('heading', { name: 'GPG Bridge: bereit' }).waitFor();
    await story.photograph('status');
    await window.runCommand('Preferences: Open Settings (UI)');
    await window.page.keyboard.type('gpgBridge');
    await window.page.getByText('GnuPG dieses Computers.').first().waitFor();
    await story.photograph('settings');
    await window.runCommand('Welcome: Open Walkthrough...');
    await window.page
      .locator('.quick-input-widget .monaco-list-row')
      .filter({ hasText: 'GPG Bridge' })
      .first()
      .click();
    await window.page.getByText('Etwas signieren').first().waitFor();
    await story.photograph('walkthrough');
  });
});
