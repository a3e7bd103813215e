import { existsSync } from 'node:fs';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, expect, it } from 'vitest';
import { CONSENT_QUESTION, eventually, Story } from './story.ts';
import { REMOTE_NAME } from './workbench.ts';

const EVERY_REMOTE_QUESTION = 'Allow every remote to use your GPG keys?';
/** How long a setting may take to reach the extension. */
const SETTING_TIMEOUT_MS = 60_000;
const OWN_KEYS_QUESTION = "Use your computer's GPG keys in this remote?";

const release = VSCODE_RELEASES.at(-1)!;

// One story, in the newest release: what a person answers, how long it lasts, and where it is seen and taken back.
requireSystem('chromium')(`Answers in VS Code ${release.vscode}`, () => {
  const story = new Story({ release, name: 'answers', install: ({ agent, request }) => [agent, request] });

  beforeAll(() => story.scene.createKeys());

  /** Opens the list of what is allowed. */
  async function whatIsAllowed(): Promise<void> {
    await story.window.openMenu();
    await story.window.pick('What is allowed');
  }

  /** Chooses to allow until the setting, which nothing on the screen tells of, has reached the extension. */
  async function askedForEveryRemote(): Promise<void> {
    const { window } = story;
    const [everyRemote, thisOne] = [window.dialog(EVERY_REMOTE_QUESTION), window.dialog(CONSENT_QUESTION)];
    for (const end = Date.now() + SETTING_TIMEOUT_MS; ; ) {
      await window.chooseAllow();
      await everyRemote.or(thisOne).waitFor();
      if (await everyRemote.isVisible()) return;
      if (Date.now() > end) throw new Error(`“${EVERY_REMOTE_QUESTION}” was never asked`);
      await window.answer(CONSENT_QUESTION, 'Not Now');
    }
  }

  it('forgets Only Now when the window is reloaded, as the dialog says', async () => {
    const window = await story.open();
    await window.waitForStatus('Allow…');
    expect(await window.status.getAttribute('class')).toContain('warning-kind');
    await story.allow();
    await window.waitForStatus('ready');
    await whatIsAllowed();
    await window.pick(REMOTE_NAME);
    await window.pick('Forget the answer');
    await window.waitForStatus('Allow…');
    await window.chooseAllow();
    await window.dialog('"Only Now" lasts until this window is closed or reloaded.').waitFor();
    await window.answer(CONSENT_QUESTION, 'Only Now');
    await window.waitForStatus('ready');
    await window.page.reload();
    await window.waitForStatus('Allow…');
  });

  it('asks once whether every remote is allowed, with the safe answer focused, and keeps a no', async () => {
    const { window } = story;
    await story.changeUserSetting('gpgBridgeAgent.consent', 'always');
    await askedForEveryRemote();
    expect(await window.focused()).toBe('Ask About Each');
    await story.photograph('every-remote');
    await window.page.keyboard.press('Enter');
    await window.answer(CONSENT_QUESTION, 'Not Now');
    await window.chooseAllow();
    await window.answer(CONSENT_QUESTION, 'Not Now');
    await whatIsAllowed();
    await window.row('Declined').waitFor();
    expect(await window.row('Declined').textContent()).toContain('Every remote');
    await story.photograph('every-remote-declined');
  });

  it('lists what follows from it, once it is confirmed', async () => {
    const { window } = story;
    await window.pick('Every remote');
    await window.pick('Confirm it…');
    await window.answer(EVERY_REMOTE_QUESTION, 'Allow Every Remote');
    await window.waitForStatus('ready');
    await whatIsAllowed();
    await window.row('Allowed, as every remote is').waitFor();
    expect(await window.row('Allowed, as every remote is').textContent()).toContain(REMOTE_NAME);
    expect(await window.row('Every remote (setting').textContent()).toContain('Confirmed');
    await story.photograph('every-remote-allowed');
    await window.escape();
    await story.signAndVerify('Sign as every remote may');
  });

  it('asks before private keys of the remote itself are set aside, once, and takes the answer back', async () => {
    const { scene } = story;
    const socket = await scene.remoteSocket();
    await story.window.close();
    await eventually(() => expect(existsSync(socket)).toBe(false));
    await scene.remote.createKey('Remote Own <own@example.org>');
    await scene.remote.killAgent();
    const window = await story.open();
    await window.waitForStatus('Allow…');
    expect(await window.spokenStatus()).toContain('private GPG keys of its own');
    await window.chooseAllow();
    await window.dialog(OWN_KEYS_QUESTION).waitFor();
    expect(await window.focused()).toBe('Keep Using the Keys Here');
    await story.photograph('own-keys');
    await window.page.keyboard.press('Enter');
    await window.waitForStatus('off');
    await window.page.reload();
    await window.waitForStatus('off');
    await whatIsAllowed();
    await window.row('Private keys of this remote itself').waitFor();
    await story.photograph('own-keys-kept');
    await window.pick('Private keys of this remote itself');
    await window.waitForStatus('Allow…');
    await window.chooseAllow();
    await window.answer(OWN_KEYS_QUESTION, "Use My Computer's Keys");
    await window.waitForStatus('ready');
    await story.signAndVerify('Sign with the keys of the computer');
  });
});
