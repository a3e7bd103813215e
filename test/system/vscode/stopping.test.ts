import { existsSync } from 'node:fs';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, expect, it } from 'vitest';
import { DIRECTORY_QUESTION, eventually, Story } from './story.ts';
import { REMOTE_NAME, Workbench } from './workbench.ts';

const FOR_TIME_QUESTION = `Allow a remote that calls itself "${REMOTE_NAME}" to use your GPG keys for 10 minutes?`;
const START_QUESTION = 'Start GPG Bridge again?';
/**
 * So soon all windows have stopped, with nothing done in them, also beside another VS Code on two processors. No time
 * tells those that were told from those that looked by themselves, as the window that holds the socket does every four
 * seconds; but a Stop in a window without a folder is not there to be seen by others, and they wait for it in vain.
 */
const AT_ONCE_MS = 30_000;

const EVERYWHERE = ['Open Menu', 'Show Status', 'What Is Allowed on This Computer'];

const release = VSCODE_RELEASES.at(-1)!;

// One story, in the newest release: what ends the use of the keys, for a time or until it is started again.
requireSystem('chromium')(`Stopping in VS Code ${release.vscode}`, () => {
  const story = new Story({ release, name: 'stopping', install: ({ agent, request }) => [agent, request] });

  beforeAll(() => story.scene.createKeys());

  /** Waits until the palette has these commands of ours, beside those that are always there. */
  const expectCommands = (...titles: string[]) =>
    eventually(async () =>
      expect(await story.window.commandsOffered()).toEqual([...EVERYWHERE, ...titles].sort()),
    );

  /** Signs in the terminal of a window; the returned function waits for the exit status. */
  async function signIn(window: Workbench, text: string, key: string): Promise<() => Promise<number>> {
    await window.openTerminal();
    await window.typeInTerminal(`echo ${text} | gpg --batch -u ${key} --clear-sign`);
    return () => story.scene.exitStatus(text);
  }

  /** Chooses a row of the menu of a window, and returns how long it took from then until all windows say this. */
  async function choose(window: Workbench, row: string, words: string, ...windows: Workbench[]) {
    await window.openMenu();
    await window.pick(row);
    const before = performance.now();
    await Promise.all(windows.map((each) => each.waitForStatus(words)));
    return performance.now() - before;
  }

  async function startAgain(window: Workbench): Promise<void> {
    await window.openMenu();
    await window.pick('Start…');
    await window.answer(START_QUESTION, 'Start');
  }

  it('allows a remote for a time, which is shown, and ends by itself', async () => {
    const window = await story.open();
    await window.waitForStatus('Allow…');
    await window.notification('once you allow it').waitFor();
    await window.dismissNotifications();
    await expectCommands('Allow This Remote…', 'Stop in This Remote', 'Stop on This Computer');
    await window.openMenu();
    await window.pick('Allow for a time…');
    await story.photograph('for-how-long');
    await window.pick('10 minutes');
    await window.dialog(FOR_TIME_QUESTION).waitFor();
    expect(await window.focused()).toBe('Not Now');
    await story.photograph('for-a-time');
    await window.answer(FOR_TIME_QUESTION, 'Allow for 10 minutes');
    await story.expectError('you have not confirmed the directory');
    await window.openMenu();
    await window.pick('Confirm…');
    await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
    await window.waitForStatus('ready');
    expect(await window.spokenStatus()).toMatch(/can be used here until \d/);
    await story.signAndVerify('Sign within the time');
    await window.openMenu();
    await window.pick('What is allowed');
    await window.row('Allowed until').waitFor();
    await story.photograph('allowed-until');
    await window.escape();
    story.scene.letTimeRunOut();
    await window.waitForStatus('Allow…');
    const { quick } = story.scene.keys;
    const refused = await signIn(window, 'after-the-time', quick);
    await window.answer(`Allow a remote that calls itself "${REMOTE_NAME}"`, 'Not Now');
    expect(await refused()).not.toBe(0);
  });

  it('has the commands in the palette that do something', async () => {
    const { window } = story;
    await window.dismissNotifications();
    await window.chooseAllow();
    await window.answer(`Allow a remote that calls itself "${REMOTE_NAME}"`, 'Allow');
    await window.waitForStatus('ready');
    const uses = ['Copy Public Keys to This Remote', 'Test Signing in This Remote'];
    await expectCommands(...uses, 'Stop in This Remote', 'Stop on This Computer');
    await story.photograph('palette-ready');
  });

  it('pauses: nothing is signed meanwhile, the time is said, and it goes on by itself', async () => {
    const { window } = story;
    const { quick } = story.scene.keys;
    await window.openMenu();
    await window.pick('Pause…');
    await window.pick('For 10 minutes');
    await window.waitForStatus('paused');
    expect(await window.spokenStatus()).toMatch(/You paused GPG Bridge on your computer until \d/);
    await expectCommands('Start in This Remote', 'Start on This Computer…');
    const refused = await signIn(window, 'while-paused', quick);
    expect(await refused()).not.toBe(0);
    await window.notification('you paused GPG Bridge on your computer').waitFor();
    await story.photograph('paused');
    await window.dismissNotifications();
    story.scene.letTimeRunOut();
    await window.waitForStatus('ready');
    const signed = await signIn(window, 'after-the-pause', quick);
    expect(await signed()).toBe(0);
  });

  it('stops for the whole remote from a window that shares the socket, also what is under way', async () => {
    const { scene, window: owner } = story;
    const { quick, guarded } = scene.keys;
    const sharing = await Workbench.open(story.profile, scene.repository);
    await sharing.waitForStatus('shared');
    expect(await sharing.spokenStatus()).toContain('The window "ship-it" holds the gpg socket.');
    await signIn(owner, 'under-way-1', guarded);
    await signIn(sharing, 'under-way-2', guarded);
    await Promise.all([owner, sharing].map((window) => window.waitForStatus('waiting for you')));
    expect(await choose(sharing, 'Stop in this remote', 'off', owner, sharing)).toBeLessThan(AT_ONCE_MS);
    await Promise.all([owner, sharing].map((window) => window.terminalText('clear-sign failed')));
    await eventually(async () => expect(existsSync(await scene.remoteSocket())).toBe(false));
    for (const [window, text] of [
      [sharing, 'stopped-1'],
      [owner, 'stopped-2'],
    ] as const) {
      const refused = await signIn(window, text, quick);
      expect(await refused()).not.toBe(0);
    }
    story.window = sharing;
    await story.photograph('stopped-remote');
    await expectCommands('Start in This Remote', 'Stop on This Computer');
    await startAgain(sharing);
    const [holder, other] = await roles(owner, sharing);
    const signed = await signIn(other, 'started-again', quick);
    expect(await signed()).toBe(0);
    story.window = holder;
    await other.close();
    await eventually(async () => expect(await scene.extensionHosts()).toBe(1));
  });

  /** Which of two windows holds the socket, and which shares it. */
  async function roles(a: Workbench, b: Workbench): Promise<[holder: Workbench, other: Workbench]> {
    const [first] = await Promise.all([
      Promise.race([a.waitForStatus('ready').then(() => a), b.waitForStatus('ready').then(() => b)]),
      Promise.race([a.waitForStatus('shared'), b.waitForStatus('shared')]),
    ]);
    return first === a ? [a, b] : [b, a];
  }

  it('stops for the whole computer, and for the whole remote, from a window without a folder', async () => {
    const { scene, window: owner } = story;
    const { quick } = scene.keys;
    const empty = await Workbench.open(story.profile);
    await empty.waitForStatus('shared');
    expect(await choose(empty, 'Stop on this computer', 'off', owner, empty)).toBeLessThan(AT_ONCE_MS);
    for (const [window, text] of [
      [empty, 'computer-1'],
      [owner, 'computer-2'],
    ] as const) {
      const refused = await signIn(window, text, quick);
      expect(await refused()).not.toBe(0);
    }
    story.window = empty;
    await story.photograph('stopped-computer');
    await startAgain(owner);
    await owner.waitForStatus('ready');
    await empty.waitForStatus('shared');
    // What was allowed in a window without a folder rests on nothing that windows share, and neither does its Stop.
    expect(await choose(empty, 'Stop in this remote', 'off', owner, empty)).toBeLessThan(AT_ONCE_MS);
    const refused = await signIn(empty, 'empty-window', quick);
    expect(await refused()).not.toBe(0);
    await story.photograph('stopped-without-folder');
  });
});
