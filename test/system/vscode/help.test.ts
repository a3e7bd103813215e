import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { VSCODE_RELEASES } from '@gpg-bridge/test-support/code-server';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import type { Locator } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { PASSPHRASE } from './scene.ts';
import { CONSENT_QUESTION, DIRECTORY_QUESTION, eventually, Story } from './story.ts';
import { REMOTE_NAME } from './workbench.ts';

const TEST_COMMAND = 'GPG Bridge: Test Signing in This Remote';
const SYNC_SETTING = 'gpgBridgeRequest.autoSyncPublicKeys';

const release = VSCODE_RELEASES.at(-1)!;

// One story, in the newest release: the test of signing and its cures, wrong settings, logs, and what fits.
requireSystem('chromium')(`Help in VS Code ${release.vscode}`, () => {
  const story = new Story({ release, name: 'help', install: ({ agent, request }) => [agent, request] });

  beforeAll(() => story.scene.createKeys());

  const git = (...args: string[]) => runOk('git', ['-C', story.scene.repository, ...args]);

  /** Waits for the step of the test that failed, with what helps; takes a picture and chooses it. */
  async function cure(step: string, words: string, picture: string): Promise<void> {
    const { window } = story;
    const row = window.row(step);
    await row.waitFor();
    expect(await row.textContent()).toContain(`→ ${words}`);
    await story.photograph(picture);
    await row.click();
  }

  async function expectSigningWorks(): Promise<void> {
    const { window } = story;
    await window.runCommand(TEST_COMMAND);
    await window.row('Verification').waitFor();
    await window.page.locator('.quick-input-title').getByText('Signing works in this remote').waitFor();
    await window.escape();
  }

  /** Whether all of an element is seen: nothing is cut at its right or below it. */
  const isWhole = (element: Locator) =>
    element.evaluate(
      ({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
        scrollWidth <= clientWidth && scrollHeight <= clientHeight,
    );

  it('leads from the test to the permission', async () => {
    const window = await story.open();
    await window.waitForStatus('Allow…');
    await window.notification('once you allow it').waitFor();
    await window.dismissNotifications();
    await window.runCommand('GPG Bridge: Show Status');
    await window.webView.getByRole('button', { name: 'Test Signing' }).click();
    await cure('Permission', 'Allow…', 'test-permission');
    await window.answer(CONSENT_QUESTION, 'Allow');
    await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
    await window.waitForStatus('ready');
    await window.runCommand('View: Close Editor');
    await expectSigningWorks();
  });

  it('leads from the test to the setting of the computer that is not confirmed', async () => {
    const { window } = story;
    const former = await story.changeUserSetting('gpgBridgeAgent.gpgBinDir', '/nowhere');
    await story.expectError('you have not confirmed the directory /nowhere');
    await story.changeUserSetting('gpgBridgeAgent.gpgBinDir', former);
    await story.expectError('you have not confirmed the directory', String(former));
    await window.runCommand(TEST_COMMAND);
    await cure('gpg-agent of your computer', 'Confirm…', 'test-agent');
    await window.answer(DIRECTORY_QUESTION, 'Use This Directory');
    await window.waitForStatus('ready');
    await expectSigningWorks();
  });

  it('leads from the test to the public keys that are missing', async () => {
    const { scene, window } = story;
    await rm(join(scene.remote.dir, 'pubring.kbx'));
    await window.runCommand(TEST_COMMAND);
    await cure('Public keys', 'Copy Public Keys', 'test-public-keys');
    await window.pick('Your own keys');
    await window.notification('2 keys added').waitFor();
    await window.dismissNotifications();
    await expectSigningWorks();
  });

  it('mends what git is set to: another format, and a key that has expired', async () => {
    const { scene, window } = story;
    await git('config', 'gpg.format', 'ssh');
    await window.runCommand(TEST_COMMAND);
    await cure('gpg.format of git', 'Set It to openpgp', 'test-format');
    await eventually(async () => expect(await git('config', '--get', 'gpg.format')).toBe('openpgp\n'));
    const expired = await scene.host.createKey('Robin Old <old@example.org>', { expired: true });
    await git('config', 'user.signingKey', expired);
    await window.runCommand('GPG Bridge: Copy Public Keys to This Remote');
    await window.pick('Your own keys');
    await window.notification('1 key added').waitFor();
    await window.dismissNotifications();
    await window.runCommand(TEST_COMMAND);
    await cure('user.signingKey of git', 'Set It to Robin Quick', 'test-signing-key');
    await eventually(async () =>
      expect(await git('config', '--get', 'user.signingKey')).toBe(`${scene.keys.quick}\n`),
    );
    await expectSigningWorks();
  });

  it('shows the log of a signature that failed', async () => {
    const { scene, window } = story;
    await git('config', 'user.signingKey', scene.keys.guarded);
    await window.runCommand(TEST_COMMAND);
    for (let attempt = 1; attempt <= 3; attempt++) await scene.typePassphrase('wrong');
    await cure('Signature', 'Show Log', 'test-signature');
    await window.page.locator('.part.panel').getByText('copied public keys').first().waitFor();
    await story.photograph('log-remote');
    await git('config', 'user.signingKey', scene.keys.quick);
    await window.page.keyboard.press('Control+J');
  });

  it('begins both logs with the versions and the GnuPG that was found', async () => {
    for (const [half, name, bin] of [
      ['this computer', 'Local GPG Bridge', 'host-bin'],
      ['remote', 'Remote GPG Bridge', 'remote-bin'],
    ] as const) {
      await eventually(() => {
        const [first, ...more] = story.scene.log(half).split('\n');
        expect(first).toMatch(
          new RegExp(`\\[info\\] ${name} \\d+\\.\\d+\\.\\d+, VS Code ${release.vscode}\\S*, linux$`),
        );
        // It is looked for while other things begin, which may be told before.
        const isGnupg = new RegExp(`\\[info\\] GnuPG \\d+\\.\\d+\\.\\d+ \\(\\S*/${bin}/gpg\\)$`);
        expect(more.slice(0, 10)).toContainEqual(expect.stringMatching(isGnupg));
      });
    }
  });

  it('tells each session in both logs by one id, with its states, at trace level', async () => {
    const { scene, window } = story;
    const halves = ['this computer', 'remote'] as const;
    for (const half of halves) {
      await window.runCommand('Developer: Set Log Level...');
      await window.row('Default Log Level').or(window.row('GPG Bridge')).first().waitFor();
      await window.page.keyboard.type(`GPG Bridge (${half})`);
      await window.pick(`GPG Bridge (${half})`);
      await window.pick('Trace');
    }
    const told = (half: (typeof halves)[number]) =>
      new Set(
        [...scene.log(half).matchAll(/\[trace\] session ([0-9a-f-]{36}): \w+ -> \w+ by /g)].map(
          ([, id]) => id,
        ),
      );
    // A level reaches an extension some time after it was chosen.
    await eventually(async () => {
      await story.signAndVerify(`Sign with a trace ${performance.now()}`);
      const [host, remote] = halves.map(told);
      expect([...remote!].filter((id) => host!.has(id)).length).toBeGreaterThan(0);
    });
    await eventually(() => {
      expect(scene.log('this computer')).toMatch(/\[trace\] session \S+: PKSIGN ok, \d+\.\d ms/);
      expect(scene.log('remote')).toMatch(
        /\[debug\] session \S+: ended after \S+ ms, \d+ bytes to the host, \d+ back/,
      );
    });
    for (const half of halves)
      expect(scene.log(half)).not.toMatch(/sig-val|BEGIN PGP|SETHASH -|SETHASH \d|SETKEYDESC \S+\+/);
    await window.runCommand('Output: Focus on Output View');
    await story.photograph('trace');
    await window.page.keyboard.press('Control+J');
  });

  it('speaks words to a screen reader, and no names of icons', async () => {
    const { window } = story;
    expect(await window.spokenStatus()).toBe(
      'GPG Bridge: ready. The GPG keys of your computer can be used here.',
    );
    await window.openMenu();
    const rows = window.page.locator('.quick-input-widget .monaco-list-row');
    const spoken = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('aria-label') ?? ''));
    expect(spoken.length).toBeGreaterThan(5);
    expect(spoken[0]).toMatch(/^Test signing, each step, and what helps/);
    for (const words of spoken) expect(words).toMatch(/^[A-Z]/);
    expect(spoken.join('\n')).not.toMatch(/\$\(|beaker|sync|info |history|list-|output|debug/);
    await window.escape();
  });

  it('names key and remote in the notice that waits, whole, also in a narrow window', async () => {
    const { scene, window } = story;
    const committed = await story.commitInTerminal('Wait to be read', scene.keys.guarded);
    const notice = window.notification('Waiting for your PIN or touch');
    await notice
      .filter({ hasText: 'Robin Guarded <guarded@example.org>' })
      .filter({ hasText: REMOTE_NAME })
      .waitFor();
    for (const width of [1100, 480]) {
      await window.page.setViewportSize({ width, height: 700 });
      await eventually(async () => {
        expect(await isWhole(notice.locator('.notification-list-item-message'))).toBe(true);
        const box = (await notice.boundingBox())!;
        expect(box.x).toBeGreaterThanOrEqual(0);
        expect(box.x + box.width).toBeLessThanOrEqual(width);
        expect(await story.window.isStatusShown()).toBe(true);
      });
      await story.photograph(`waiting-${width}`);
    }
    await window.page.setViewportSize({ width: 1100, height: 700 });
    await scene.typePassphrase(PASSPHRASE);
    expect(await committed()).toBe(0);
    await notice.waitFor({ state: 'detached' });
  });

  it('says that a setting of the remote has a wrong value, and opens it there', async () => {
    const { scene, window } = story;
    await window.waitForStatus('ready');
    await scene.changeRemoteSetting(SYNC_SETTING, 'sometimes');
    await story.expectError(
      'no public keys are copied',
      `the setting ${SYNC_SETTING} is "sometimes", and not "pairs", "all", "none" or a list`,
    );
    await window.openMenu();
    await story.photograph('wrong-remote-setting');
    await window.pick('Open the Setting of This Remote');
    await window.page.getByText('Public keys to copy.').first().waitFor();
    expect(await window.page.locator('.settings-tabs-widget .action-item .checked').textContent()).toContain(
      'Remote',
    );
    await story.photograph('wrong-remote-setting-opened');
    await scene.changeRemoteSetting(SYNC_SETTING, 'pairs');
    await window.waitForStatus('ready');
    await window.runCommand('View: Close Editor');
    const former = await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', 5);
    await story.expectError('this remote has no GnuPG', 'gpgBridgeRequest.gpgBinDir');
    await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', former);
    await window.waitForStatus('ready');
  });

  it('says that a setting of the computer has a wrong value, what counts instead, and opens it', async () => {
    const { window } = story;
    await window.dismissNotifications();
    await story.changeUserSetting('gpgBridgeAgent.consent', 'sometimes');
    const told = window.notification(
      'the setting gpgBridgeAgent.consent is "sometimes", and not "ask" or "always". It counts as "ask".',
    );
    await told.waitFor();
    await story.photograph('wrong-host-setting');
    await told.getByRole('button', { name: 'Open the Setting' }).click();
    await window.page.getByText('Permission.').first().waitFor();
    await window.runCommand('View: Close Editor');
    await window.waitForStatus('ready');
  });

  it('leads from a signature that can not be verified to the public keys', async () => {
    const { scene, window } = story;
    // No gpg that just signed fails to verify: this one does.
    const broken = await scene.useRemoteHome('broken', scene.remote.dir);
    const whole = join(scene.dir, 'remote-bin/gpg');
    const script = `#!/bin/sh\ncase "$*" in *--verify*) echo "gpg: Can't check signature: No public key" >&2; exit 2 ;; esac\nexec '${whole}' "$@"\n`;
    await writeFile(join(broken, 'gpg'), script);
    const former = await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', broken);
    await eventually(() => expect(scene.log('remote')).toContain(`(${broken}/gpg)`));
    await window.waitForStatus('ready');
    await window.runCommand(TEST_COMMAND);
    await cure('Verification', 'Copy Public Keys', 'test-verification');
    await window.pick('Your own keys');
    await window.notification('keys unchanged').waitFor();
    await scene.changeRemoteSetting('gpgBridgeRequest.gpgBinDir', former);
    await window.waitForStatus('ready');
  });
});
