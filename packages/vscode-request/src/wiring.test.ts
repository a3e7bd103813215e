import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FakeVsCode, fakeContext, fakeMemento } from '@gpg-bridge/test-support/fake-vscode';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { makeOpenPgpKey } from '@gpg-bridge/test-support/openpgp-keys';
import { runOk } from '@gpg-bridge/test-support/process';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { wireAgent } from '../../vscode-agent/src/wiring.ts';
import { wireRequest } from './wiring.ts';

const CONSENT_BUTTONS = ['Allow', 'Only now', 'Never'];

async function home(agentConf = ''): Promise<GnupgHome> {
  const created = await GnupgHome.create(agentConf);
  onTestFinished(() => created.remove());
  return created;
}

/** A directory of programs that use this home, for a gpgBinDir setting. */
async function binDir(gnupg: GnupgHome): Promise<string> {
  const bin = join(gnupg.dir, '..', 'bin');
  await mkdir(bin);
  for (const program of ['gpg', 'gpgconf']) {
    const path = (await runOk('sh', ['-c', `command -v ${program}`])).trim();
    await writeFile(join(bin, program), `#!/bin/sh\nGNUPGHOME='${gnupg.dir}' exec '${path}' "$@"\n`);
    await chmod(join(bin, program), 0o755);
  }
  return bin;
}

/** Host and remote, each with its own home, and the two extensions in one window of a fake VS Code. */
class Fixture {
  readonly fake = new FakeVsCode();
  /** What the host's extension keeps, for all windows. */
  hostState = fakeMemento();
  stop: () => Promise<void> = async () => {};

  private constructor(
    readonly host: GnupgHome,
    readonly remote: GnupgHome,
    readonly fingerprint: string,
  ) {}

  static async create(): Promise<Fixture> {
    const host = await home();
    const fixture = new Fixture(host, await home(), await host.createKey('Robin <robin@example.org>'));
    const { fake } = fixture;
    fake.env.remoteName = 'ssh-remote';
    fake.workspace.workspaceFolders = [{ uri: { scheme: 'vscode-remote', authority: 'ssh-remote+build1' } }];
    fake.settings.set('gpgBridgeAgent.gpgBinDir', await binDir(host));
    fake.settings.set('gpgBridgeRequest.gpgBinDir', await binDir(fixture.remote));
    fixture.answer('Allow');
    return fixture;
  }

  /** What the person presses when they are asked for consent. */
  answer(button: string | undefined): void {
    this.fake.onMessage = ({ modal, buttons }) =>
      modal && buttons[0] === CONSENT_BUTTONS[0] ? button : undefined;
  }

  /** Starts both extensions as VS Code does. */
  open({ hostVersion = '0.1.0', remoteVersion = '0.1.0', hostInstalled = true } = {}): this {
    const hostContext = fakeContext(hostVersion, this.hostState);
    if (hostInstalled) wireAgent(this.fake.api, hostContext);
    const context = fakeContext(remoteVersion);
    this.stop = wireRequest(this.fake.api, context);
    onTestFinished(async () => {
      await this.stop();
      for (const { dispose } of [...context.subscriptions, ...hostContext.subscriptions]) await dispose();
    });
    return this;
  }

  get status(): string {
    return this.fake.statusItems[0]?.text.replace(/^\$\(.*\) GPG: /, '') ?? 'no status item';
  }

  async waitForStatus(words: string): Promise<void> {
    await vi.waitFor(() => expect(this.status).toBe(words), { timeout: 30_000 });
  }

  /** Gives the remote the public key, for tests in which the bridge does not. */
  async copyPublicKey(): Promise<void> {
    await this.remote.gpgOk(['--import'], { input: await this.host.gpgOk(['--armor', '--export']) });
    await this.remote.killAgent();
  }

  sign(): ReturnType<GnupgHome['gpg']> {
    return this.remote.gpg(['--clear-sign', '--local-user', this.fingerprint], { input: 'hello\n' });
  }
}

describe('both extensions together', () => {
  it('sign with the host’s key in the remote, after the person allowed it', async () => {
    const window = (await Fixture.create()).open();
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), {
      timeout: 30_000,
    });
    await window.waitForStatus('ready');
    expect(window.fake.messages[0]).toMatchObject({
      text: 'Allow "SSH: build1" to use your GPG keys?',
      modal: true,
      buttons: CONSENT_BUTTONS,
    });
    const signed = await window.sign();
    expect(signed).toMatchObject({ status: 0, stderr: '' });
    const verified = await window.remote.gpg(['--verify'], { input: signed.stdout });
    expect(verified.stderr).toContain('Good signature from "Robin <robin@example.org>" [ultimate]');
  });

  it('write no payload to a log', async () => {
    const window = (await Fixture.create()).open();
    await window.waitForStatus('ready');
    await window.sign();
    await vi.waitFor(() =>
      expect(window.fake.logged.join('\n')).toMatch(/info PKSIGN, key [0-9A-F]{40}, ok/),
    );
    expect(window.fake.logged.join('\n')).not.toMatch(/sig-val|BEGIN PGP|hello/);
  });

  it('leave nothing when they stop', async () => {
    const window = (await Fixture.create()).open();
    await window.waitForStatus('ready');
    const socket = await window.remote.socket('agent-socket');
    expect(existsSync(socket)).toBe(true);
    await window.stop();
    expect(existsSync(socket)).toBe(false);
    expect(existsSync(join(dirname(socket), 'S.gpg-bridge'))).toBe(false);
    expect(window.status).toBe('off');
  });

  it('give the remote’s gpg a readable error when the answer is Never', async () => {
    const window = await Fixture.create();
    window.answer('Never');
    await window.copyPublicKey();
    window.open();
    await window.waitForStatus('off');
    const failed = await window.sign();
    expect(failed.status).not.toBe(0);
    expect(failed.stderr).toContain('Operation cancelled');
    expect(window.fake.messages.at(-1)).toMatchObject({
      level: 'warning',
      text: expect.stringContaining('you chose never to allow SSH: build1 to use them'),
      buttons: ['What Is Allowed'],
    });
  });

  it('do not tell the person twice what they decided', async () => {
    const window = await Fixture.create();
    window.answer('Never');
    await window.copyPublicKey();
    window.open();
    await window.waitForStatus('off');
    const asked = window.fake.messages.length;
    expect(asked).toBe(1);
    await window.sign();
    await window.sign();
    expect(window.fake.messages).toHaveLength(asked + 1);
  });

  it('say which extension to update when their versions do not fit', async () => {
    const window = (await Fixture.create()).open({ hostVersion: '0.2.0' });
    await window.waitForStatus('error');
    expect(window.fake.messages).toMatchObject([
      {
        text: expect.stringContaining('Update gpg-bridge-request in this remote'),
        buttons: ['Show Extensions'],
      },
    ]);
    expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false);
  });

  it('say so when the host’s extension is missing', async () => {
    const window = (await Fixture.create()).open({ hostInstalled: false });
    await window.waitForStatus('error');
    expect(window.fake.texts[0]).toContain('gpg-bridge-agent is not installed or not enabled');
  });

  it('stay quiet, but for the status bar, in a remote without gpg', async () => {
    const window = await Fixture.create();
    window.fake.settings.set('gpgBridgeRequest.gpgBinDir', '/nowhere');
    window.open();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain("can't find gpgconf");
    expect(window.fake.messages).toEqual([]);
  });

  it('ask before they hide private keys of the remote’s own', async () => {
    const window = await Fixture.create();
    await window.remote.createKey('Remote Own <own@example.org>');
    await window.remote.killAgent();
    window.open();
    await window.waitForStatus('off');
    expect(window.fake.messages).toMatchObject([
      { text: "Use your computer's GPG keys in this remote?", modal: true },
    ]);
    expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false);
    window.fake.onMessage = ({ buttons }) => buttons[0];
    await window.fake.api.commands.executeCommand('gpg-bridge-request.start');
    await window.waitForStatus('ready');
  });

  it('refuse the host’s own socket', async () => {
    const window = await Fixture.create();
    window.fake.settings.set(
      'gpgBridgeRequest.gpgBinDir',
      window.fake.settings.get('gpgBridgeAgent.gpgBinDir'),
    );
    // It has private keys, of course: the person says yes to everything.
    window.fake.onMessage = ({ buttons }) => buttons[0];
    window.open();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('it leads to the agent of the host itself');
    expect((await window.host.gpg(['--clear-sign'], { input: 'still works\n' })).status).toBe(0);
  });

  it('do nothing in a local window', async () => {
    const window = await Fixture.create();
    window.fake.env.remoteName = undefined;
    window.open();
    expect(window.fake.statusItems).toEqual([]);
    await window.fake.api.commands.executeCommand('gpg-bridge-request.start');
    expect(window.fake.texts).toEqual([expect.stringContaining('nothing to do in a local window')]);
    expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false);
  });

  it('start again with the settings as they are changed', async () => {
    const window = await Fixture.create();
    const good = window.fake.settings.get('gpgBridgeRequest.gpgBinDir');
    window.fake.settings.set('gpgBridgeRequest.gpgBinDir', '/nowhere');
    window.open();
    await window.waitForStatus('error');
    window.fake.changeSetting('gpgBridgeRequest.gpgBinDir', good);
    await window.waitForStatus('ready');
  });

  it('stop and start from the menu, and turn to the host for what is allowed there', async () => {
    const window = (await Fixture.create()).open();
    await window.waitForStatus('ready');
    const choose = (...words: string[]) => {
      window.fake.onPick = (items) => {
        const word = words.shift() ?? '…';
        return items.find((item) => item.label.includes(word));
      };
      return window.fake.api.commands.executeCommand('gpg-bridge-request.showStatus');
    };
    await choose('Stop');
    expect(window.status).toBe('off');
    await choose('Start');
    await window.waitForStatus('ready');
    await choose('What is allowed', 'SSH: build1', 'Never allow');
    await window.waitForStatus('off');
    await choose('What is allowed', 'SSH: build1', 'Allow…');
    await window.waitForStatus('ready');
    expect((await window.sign()).status).toBe(0);
  });

  it('say in which state the host’s own stop leaves the remote', async () => {
    const window = (await Fixture.create()).open();
    await window.waitForStatus('ready');
    await window.fake.api.commands.executeCommand('gpg-bridge-agent.stop');
    expect((await window.sign()).status).not.toBe(0);
    await window.waitForStatus('off');
    expect(window.fake.statusItems[0]?.tooltip).toContain('GPG Bridge is stopped on your computer');
    await window.fake.api.commands.executeCommand('gpg-bridge-agent.start');
    expect((await window.sign()).status).toBe(0);
    await window.waitForStatus('ready');
  });
});

describe('key sync', () => {
  /** A window whose host also has a friend's key, with nothing copied at the start. */
  async function withFriend(): Promise<{ window: Fixture; friend: string }> {
    const window = await Fixture.create();
    const other = await home();
    const friend = await other.createKey('Kim <kim@example.net>');
    await window.host.gpgOk(['--import'], { input: await other.gpgOk(['--armor', '--export']) });
    window.fake.settings.set('gpgBridgeRequest.autoSyncPublicKeys', 'none');
    return { window, friend };
  }

  async function sync(window: Fixture, ...words: string[]): Promise<string> {
    window.fake.onPick = (items, title) => {
      if (title.startsWith('Public keys for')) return items.filter((item) => item.label.includes(words[1]!));
      return items.find((item) => item.label.includes(words[0]!));
    };
    await window.fake.api.commands.executeCommand('gpg-bridge-request.syncPublicKeys');
    return window.fake.texts.at(-1) ?? '';
  }

  it('copies none, all, one’s own, or chosen keys, and trusts one’s own alone', async () => {
    const { window, friend } = await withFriend();
    window.open();
    await window.waitForStatus('off'); // nothing was asked of the host yet
    const listed = () => window.remote.gpgOk(['--with-colons', '--list-keys']);
    expect(await listed()).not.toContain('pub:');
    expect(await sync(window, 'Choose', 'Kim')).toBe('GPG Bridge: 1 key added.');
    expect(window.fake.messages.at(-1)?.buttons).toEqual(['Always Copy These']);
    expect(await listed()).not.toContain(window.fingerprint);
    expect(await sync(window, 'Your own keys')).toBe('GPG Bridge: 1 key added.');
    expect(await sync(window, 'All public keys')).toBe('GPG Bridge: 2 keys unchanged.');
    expect(await window.remote.gpgOk(['--export-ownertrust'])).toContain(`${window.fingerprint}:6:`);
    expect(await window.remote.gpgOk(['--export-ownertrust'])).not.toContain(friend);
    expect(window.fake.progress).toContain('GPG Bridge: copying public keys…');
  });

  it('copies a keyring of several megabytes', async () => {
    const { window } = await withFriend();
    const name = 'x'.repeat(1_900); // a user ID may have 2,048 bytes
    const keys = Array.from({ length: 20 }, (_, key) =>
      makeOpenPgpKey(Array.from({ length: 100 }, (_, id) => `${key}-${id} ${name}`)),
    );
    const packets = Buffer.concat(keys.map((key) => key.packets));
    expect(packets.length).toBeGreaterThan(4_000_000);
    await window.host.gpgOk(['--import'], { input: packets });
    window.open();
    await window.waitForStatus('off');
    expect(await sync(window, 'All public keys')).toBe('GPG Bridge: 22 keys added.');
    const listed = await window.remote.gpgOk(['--with-colons', '--list-keys']);
    for (const { fingerprint } of keys) expect(listed).toContain(fingerprint);
  });

  it('keeps a choice as the setting, if the person says so', async () => {
    const { window, friend } = await withFriend();
    window.open();
    await window.waitForStatus('off');
    window.fake.onMessage = ({ buttons }) => buttons[0];
    await sync(window, 'Choose', 'Kim');
    await vi.waitFor(() =>
      expect(window.fake.settings.get('gpgBridgeRequest.autoSyncPublicKeys')).toEqual([friend]),
    );
  });

  it('copies the keys of a list at the start', async () => {
    const { window, friend } = await withFriend();
    window.fake.settings.set('gpgBridgeRequest.autoSyncPublicKeys', [friend]);
    window.open();
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), {
      timeout: 30_000,
    });
  });

  it('says what is wrong with a list that names no key', async () => {
    const { window } = await withFriend();
    window.fake.settings.set('gpgBridgeRequest.autoSyncPublicKeys', ['nobody@example.com']);
    window.open();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('gpg knows no public key "nobody@example.com"');
  });

  it('does nothing when the person closes the list', async () => {
    const { window } = await withFriend();
    window.open();
    await window.waitForStatus('off');
    const before = window.fake.messages.length;
    window.fake.onPick = () => undefined;
    await window.fake.api.commands.executeCommand('gpg-bridge-request.syncPublicKeys');
    expect(window.fake.messages).toHaveLength(before);
  });
});

describe('two windows of one remote', () => {
  it('share its socket, and the second takes over', async () => {
    const first = await Fixture.create();
    first.open();
    await first.waitForStatus('ready');
    const second = await Fixture.create();
    second.hostState = first.hostState;
    for (const [key, value] of first.fake.settings) second.fake.settings.set(key, value);
    second.open();
    await second.waitForStatus('shared with another window');
    expect((await first.sign()).status).toBe(0);
    await first.stop();
    await second.waitForStatus('ready');
    expect((await first.sign()).status).toBe(0);
    // It was the second window that carried it.
    expect(second.fake.logged.join('\n')).toContain('info PKSIGN');
  });
});
