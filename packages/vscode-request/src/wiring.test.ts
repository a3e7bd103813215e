import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FakeVsCode, fakeContext } from '@gpg-bridge/test-support/fake-vscode';
import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { makeOpenPgpKey } from '@gpg-bridge/test-support/openpgp-keys';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { wireAgent } from '../../vscode-agent/src/wiring.ts';
import { wireRequest } from './wiring.ts';

const CONSENT_BUTTONS = ['Not Now', 'Only Now', 'Allow', 'Never'];
const CONSENT_QUESTION = 'Allow a remote that calls itself "SSH: build1" to use your GPG keys?';

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
  /** What each half keeps, for all windows. */
  storage = { host: '', remote: '' };
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
    fixture.storage = { host: await tempDir(), remote: await tempDir() };
    fake.env.remoteName = 'ssh-remote';
    fake.workspace.workspaceFolders = [{ uri: { scheme: 'vscode-remote', authority: 'ssh-remote+build1' } }];
    fake.settings.set('gpgBridgeAgent.gpgBinDir', await binDir(host));
    fake.settings.set('gpgBridgeRequest.gpgBinDir', await binDir(fixture.remote));
    fixture.answer('Allow');
    return fixture;
  }

  /** What the person presses when they are asked for consent. */
  answer(button: string | undefined): void {
    this.fake.onMessage = ({ modal, text }) => {
      if (!modal) return undefined;
      if (text === 'Run the GnuPG programs in this directory?') return 'Use This Directory';
      return text.startsWith('Start GPG Bridge again') ? 'Start' : button;
    };
  }

  /** Chooses Allow… and returns when its answer has been acted on. */
  async allow(): Promise<void> {
    await this.waitForStatus('Allow…');
    await this.run('allow');
  }

  run(command: string): Thenable<unknown> {
    return this.fake.api.commands.executeCommand(`gpg-bridge-request.${command}`);
  }

  /** The questions of the host's side, in order. */
  get questions(): string[] {
    return this.fake.messages.filter(({ modal }) => modal).map(({ text }) => text);
  }

  /** Another window of the same remote, on the same computer. */
  async another(): Promise<Fixture> {
    const other = new Fixture(this.host, this.remote, this.fingerprint);
    other.storage = this.storage;
    other.fake.env.remoteName = this.fake.env.remoteName;
    other.fake.workspace.name = 'second';
    other.fake.workspace.workspaceFolders = this.fake.workspace.workspaceFolders;
    for (const [key, value] of this.fake.settings) other.fake.settings.set(key, value);
    other.answer('Allow');
    return other;
  }

  /** Starts both extensions as VS Code does. */
  open({ hostVersion = '0.1.0', remoteVersion = '0.1.0', hostInstalled = true } = {}): this {
    const hostContext = fakeContext(hostVersion, this.storage.host);
    if (hostInstalled) wireAgent(this.fake.api, hostContext);
    const context = fakeContext(remoteVersion, this.storage.remote);
    this.stop = wireRequest(this.fake.api, context);
    onTestFinished(async () => {
      await this.stop();
      for (const used of [...context.subscriptions, ...hostContext.subscriptions]) await used.dispose();
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
    await window.waitForStatus('Allow…');
    expect(window.questions).toEqual([]);
    await window.run('allow');
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), {
      timeout: 30_000,
    });
    await window.waitForStatus('ready');
    expect(window.fake.messages.find(({ text }) => text === CONSENT_QUESTION)).toMatchObject({
      modal: true,
      buttons: CONSENT_BUTTONS,
    });
    const signed = await window.sign();
    expect(signed).toMatchObject({ status: 0, stderr: '' });
    const verified = await window.remote.gpg(['--verify'], { input: signed.stdout });
    expect(verified.stderr).toContain('Good signature from "Robin <robin@example.org>" [ultimate]');
  });

  it('write no payload to a log, which begins with versions and the gpg that was found', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    await window.sign();
    await vi.waitFor(
      () => expect(window.fake.logged.join('\n')).toMatch(/info PKSIGN, key [0-9A-F]{40}, ok/),
      PATIENT,
    );
    expect(window.fake.logged.join('\n')).not.toMatch(/sig-val|BEGIN PGP|hello/);
    expect(window.fake.logged.slice(0, 2)).toEqual([
      expect.stringContaining('Local GPG Bridge 0.1.0, VS Code 1.100.0'),
      expect.stringContaining('Remote GPG Bridge 0.1.0, VS Code 1.100.0'),
    ]);
    expect(window.fake.logged.join('\n')).toMatch(
      /info GnuPG 2\.\S+ \(\S+gpg\)\n(?:.*\n)*.*info GnuPG 2\.\S+ \(\S+gpg\)/,
    );
  });

  it('leave nothing when they stop', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    const socket = await window.remote.socket('agent-socket');
    expect(existsSync(socket)).toBe(true);
    await window.stop();
    expect(existsSync(socket)).toBe(false);
    expect(existsSync(join(dirname(socket), 'S.gpg-bridge'))).toBe(false);
    expect(window.status).toBe('off');
  });

  it('ask when a program in the remote asks, and sign at once when they are allowed', async () => {
    const window = await Fixture.create();
    await window.copyPublicKey();
    window.open();
    await window.waitForStatus('Allow…');
    expect((await window.sign()).status).toBe(0);
    expect(window.questions).toContain(CONSENT_QUESTION);
    await window.waitForStatus('ready');
  });

  it('give the remote’s gpg a readable error when the answer is Never', async () => {
    const window = await Fixture.create();
    window.answer('Never');
    await window.copyPublicKey();
    window.open();
    await window.allow();
    await window.waitForStatus('off');
    const failed = await window.sign();
    expect(failed.status).not.toBe(0);
    expect(failed.stderr).toContain('Operation cancelled');
    expect(window.fake.messages.at(-1)).toMatchObject({
      level: 'warning',
      text: expect.stringContaining('you chose never to allow SSH: build1 to use them'),
      buttons: ['Allow…'],
    });
  });

  it('do not tell the person twice what they decided', async () => {
    const window = await Fixture.create();
    window.answer('Never');
    await window.copyPublicKey();
    window.open();
    await window.allow();
    await window.waitForStatus('off');
    const asked = window.fake.messages.length;
    await window.sign();
    await window.sign();
    expect(window.fake.messages).toHaveLength(asked + 1);
  });

  it('say which extension to update when their versions do not fit', async () => {
    const window = (await Fixture.create()).open({ hostVersion: '0.2.0' });
    await window.waitForStatus('error');
    expect(window.fake.messages).toMatchObject([
      {
        text: expect.stringContaining('Update "Remote GPG Bridge" in this remote'),
        buttons: ['Show Both Halves'],
      },
    ]);
    expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false);
  });

  it('say so once when the host’s extension is missing, and go on when it is there', async () => {
    const window = (await Fixture.create()).open({ hostInstalled: false });
    await window.waitForStatus('error');
    expect(window.fake.texts[0]).toContain('"Local GPG Bridge" is not installed or not enabled');
    expect(window.fake.messages[0]?.buttons).toEqual(['Install "Local GPG Bridge"']);
    window.fake.onPick = (items) => items.find(({ label }) => label.includes('What is allowed'));
    await window.run('openMenu');
    wireAgent(window.fake.api, fakeContext('0.1.0', window.storage.host));
    await window.waitForStatus('Allow…');
    // Once by itself, and once when the person wanted something.
    expect(window.fake.texts.filter((text) => text.includes('not installed'))).toHaveLength(2);
  });

  it('name the remote and its setting, in the status bar alone, when it has no gpg', async () => {
    const window = await Fixture.create();
    window.fake.settings.set('gpgBridgeRequest.gpgBinDir', '/nowhere');
    window.open();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('this remote has no GnuPG');
    expect(window.fake.statusItems[0]?.tooltip).toContain('gpgBridgeRequest.gpgBinDir');
    expect(window.fake.messages).toEqual([]);
    const opened: unknown[] = [];
    window.fake.handlers.set('workbench.action.openRemoteSettings', (...args: unknown[]) => {
      opened.push(...args);
    });
    window.fake.onPick = (items) => items[0];
    await window.run('openMenu');
    expect(opened).toEqual([{ query: 'gpgBridgeRequest.gpgBinDir' }]);
  });

  it('name your computer and its setting when that has no gpg, until it is mended', async () => {
    const window = await Fixture.create();
    const good = window.fake.settings.get('gpgBridgeAgent.gpgBinDir');
    window.fake.settings.set('gpgBridgeAgent.gpgBinDir', '/nowhere');
    window.open();
    await window.allow();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('your computer has no GnuPG');
    expect(window.fake.statusItems[0]?.tooltip).toContain('gpgBridgeAgent.gpgBinDir');
    const opened: unknown[] = [];
    window.fake.handlers.set(
      'workbench.action.openSettings',
      (...args: unknown[]) => void opened.push(...args),
    );
    window.fake.onPick = (items) => items[0];
    await window.run('openMenu');
    expect(opened).toEqual(['gpgBridgeAgent.gpgBinDir']);
    window.fake.changeSetting('gpgBridgeAgent.gpgBinDir', good);
    await vi.waitFor(
      () => expect(window.fake.statusItems[0]?.tooltip).toContain('you have not confirmed'),
      PATIENT,
    );
    window.fake.onPick = (items) => items.find(({ label }) => label.includes('Confirm…'));
    await window.run('openMenu');
    await window.waitForStatus('ready');
  });

  it('do not say ready when your computer has no private key', async () => {
    const window = await Fixture.create();
    const empty = await home();
    window.fake.settings.set('gpgBridgeAgent.gpgBinDir', await binDir(empty));
    window.open();
    await window.allow();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('your computer has no private key');
    window.fake.onPick = (items) => items.find(({ label }) => label.includes('Choose'));
    await window.run('syncPublicKeys');
    expect(window.fake.texts.at(-1)).toContain('has no keys');
    await empty.createKey('New <new@example.org>');
    await window.run('start');
    await vi.waitFor(async () => {
      await window.fake.api.commands.executeCommand('_gpg-bridge-request.hostChanged');
      expect(window.status).toBe('ready');
    }, 20_000);
  });

  it('say that a path is too long for a socket', async () => {
    const window = await Fixture.create();
    const long = join(window.remote.dir, 'x'.repeat(100));
    await mkdir(long, { mode: 0o700 });
    const bin = join(await tempDir(), 'bin');
    await mkdir(bin);
    const answer = `if [ "$2" ]; then echo '${long}/S.gpg-agent'; else echo 'homedir:${long}'; echo 'agent-socket:x'; fi`;
    await writeFile(join(bin, 'gpgconf'), `#!/bin/sh\n${answer}\n`, { mode: 0o755 });
    await writeFile(join(bin, 'gpg'), '#!/bin/sh\n', { mode: 0o755 });
    window.fake.settings.set('gpgBridgeRequest.gpgBinDir', bin);
    window.open();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toMatch(/its path has \d+ bytes/);
  });

  it('ask before they hide private keys of the remote’s own, and never by themselves', async () => {
    const window = await Fixture.create();
    await window.remote.createKey('Remote Own <own@example.org>');
    await window.remote.killAgent();
    window.open();
    await window.waitForStatus('Allow…');
    expect(window.questions).toEqual([]);
    expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false);
    window.answer('Keep Using the Keys Here');
    await window.run('allow');
    await window.waitForStatus('off');
    expect(window.questions).toEqual(["Use your computer's GPG keys in this remote?"]);
    expect(window.fake.messages.at(-1)?.buttons).toEqual([
      'Keep Using the Keys Here',
      "Use My Computer's Keys",
    ]);
    // Kept for this remote, and taken back from the list.
    window.fake.onPick = (items) =>
      items.find(({ label }) => /What is allowed|Private keys of this remote/.test(label));
    await window.run('openMenu');
    await window.waitForStatus('Allow…');
    window.fake.onMessage = ({ modal, text, buttons }) =>
      !modal ? undefined : text.startsWith('Allow') ? 'Allow' : buttons[1];
    await window.run('allow');
    await window.waitForStatus('ready');
  });

  it('refuse the host’s own socket', async () => {
    const window = await Fixture.create();
    window.fake.settings.set(
      'gpgBridgeRequest.gpgBinDir',
      window.fake.settings.get('gpgBridgeAgent.gpgBinDir'),
    );
    // It has private keys, of course: the person says yes to everything.
    window.fake.onMessage = ({ modal, text, buttons }) =>
      !modal ? undefined : text.startsWith('Allow') ? 'Allow' : buttons[1];
    window.open();
    await window.allow();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toMatch(/it leads to the agent of (the host|your computer)/);
    expect((await window.host.gpg(['--clear-sign'], { input: 'still works\n' })).status).toBe(0);
  });

  it('leave the remote’s own agent its place until they are allowed', async () => {
    const window = await Fixture.create();
    await window.remote.gpgOk(['--list-secret-keys']); // starts it
    await runOk('gpg-connect-agent', ['/bye'], { env: window.remote.env });
    window.open();
    await window.waitForStatus('Allow…');
    const running = await runOk('gpg-connect-agent', ['--no-autostart', 'GETINFO pid', '/bye'], {
      env: window.remote.env,
    });
    expect(running).toMatch(/^D \d+/);
    await window.run('allow');
    await window.waitForStatus('ready');
    expect((await window.sign()).status).toBe(0);
  });

  it('show both halves, the keys and what they were used for on a page that can be copied', async () => {
    const window = await Fixture.create();
    const old = await window.host.createKey('Old <old@example.org>', { expired: true });
    await window.host.createKey('Mixed <mixed@example.org>', { usage: 'sign,cert,auth' });
    window.open();
    await window.waitForStatus('Allow…');
    await window.run('showStatus');
    const [page] = window.fake.pages;
    expect(page?.webview.html).toContain('<h1>GPG Bridge: Allow…</h1>');
    // Nothing of your computer's GnuPG is looked at before you allow the remote.
    expect(page?.webview.html).toContain('is looked at once you have allowed this remote');
    expect(page?.webview.html).not.toContain(window.host.dir);
    await window.run('allow');
    await window.waitForStatus('ready');
    await window.sign();
    await window.run('showStatus');
    await window.fake.api.commands.executeCommand('_gpg-bridge-agent.copyStatus');
    expect(window.fake.pages).toHaveLength(1);
    expect(page?.webview.html).toContain('<h1>GPG Bridge: ready</h1>');
    expect(page?.webview.options).toMatchObject({ enableScripts: false });
    const [text] = window.fake.copied;
    const socket = await window.remote.socket('agent-socket');
    expect(text).toMatch(/## Local GPG Bridge\n\n- Version: 0\.1\.0 \(VS Code 1\.100\.0/);
    expect(text).toContain('- Permission: "SSH: build1": allowed');
    expect(text).toMatch(/- GnuPG: \S+\/gpg, version \d+\.\d+/);
    expect(text).toContain(`- Agent socket: ${await window.host.socket('agent-extra-socket')}`);
    expect(text).toContain("- Left out: the key of Mixed <mixed@example.org> can't sign here: that key can");
    expect(text).toContain(`- Socket: ${socket}\n- Held by: this window`);
    expect(text).toMatch(new RegExp(`- Old <old@example.org>, ${old.replace(/(.{4})/g, '$1 ?')}, expired`));
    expect(text).toMatch(/## Last operations\n\n- .*, a signature, done in .*, Robin <robin@example.org>/);
  });

  it('say on the page which half is missing, and offer to install it', async () => {
    const window = (await Fixture.create()).open({ hostInstalled: false });
    await window.waitForStatus('error');
    await window.run('showStatus');
    expect(window.fake.pages[0]?.webview.html).toContain('Install &quot;Local GPG Bridge&quot;');
    const done: unknown[] = [];
    window.fake.handlers.set('workbench.extensions.installExtension', () => {
      throw new Error('no marketplace');
    });
    window.fake.handlers.set('workbench.extensions.search', (...args: unknown[]) => void done.push(...args));
    await window.fake.api.commands.executeCommand('_gpg-bridge-request.installHostHalf');
    expect(done).toEqual(['@id:gpg-bridge.gpg-bridge-agent']);
    wireAgent(window.fake.api, fakeContext('0.1.0', window.storage.host));
    // The page of the half that is there now takes its place.
    await vi.waitFor(() => expect(window.fake.pages).toMatchObject([{ visible: false }, { visible: true }]), {
      timeout: 30_000,
    });
  });

  it('leave another forward its place, calmly, until the person takes over', async () => {
    const window = await Fixture.create();
    await window.host.launchAgent();
    const socket = await window.remote.socket('agent-socket');
    const relayTo = await window.host.socket('agent-extra-socket');
    const forward = await SocketHolder.start(socket, { relayTo });
    await window.copyPublicKey();
    window.open();
    await window.waitForStatus('forwarded');
    expect(window.fake.statusItems[0]?.tooltip).toContain(
      `Another forward serves this remote (node, process ${forward.pid}).`,
    );
    expect(window.fake.statusItems[0]?.backgroundColor).toBeUndefined();
    expect(window.fake.messages).toEqual([]);
    expect((await window.sign()).status).toBe(0);
    window.fake.onPick = (items) => items.find(({ label }) => label.includes('Take over'));
    await window.run('openMenu');
    await window.waitForStatus('ready');
    expect(window.questions).toContain(CONSENT_QUESTION);
    expect((await window.sign()).status).toBe(0);
  });

  it('take the place of another forward once that has ended', async () => {
    const window = await Fixture.create();
    await window.host.launchAgent();
    const relayTo = await window.host.socket('agent-extra-socket');
    const forward = await SocketHolder.start(await window.remote.socket('agent-socket'), { relayTo });
    window.open();
    await window.waitForStatus('forwarded');
    await forward.end();
    await window.waitForStatus('Allow…');
  });

  it('say that another forward took the place of the socket', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    const socket = await window.remote.socket('agent-socket');
    const holder = join(dirname(socket), 'holder');
    await SocketHolder.start(holder, { relayTo: await window.host.socket('agent-extra-socket') });
    await rename(holder, socket);
    await vi.waitFor(
      async () => {
        await window.fake.api.commands.executeCommand('_gpg-bridge-request.hostChanged');
        expect(window.status).toBe('forwarded');
      },
      { timeout: 30_000 },
    );
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
    await window.waitForStatus('Allow…');
  });

  it('sign after Esc and a later Allow from the menu', async () => {
    const window = await Fixture.create();
    window.answer(undefined);
    window.open();
    await window.allow();
    expect(window.status).toBe('Allow…');
    window.answer('Allow');
    window.fake.onPick = (items) => items[0];
    await window.run('openMenu');
    expect(window.fake.picks.at(-1)?.items[0]?.label).toBe('$(shield) Allow…');
    await window.waitForStatus('ready');
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), {
      timeout: 30_000,
    });
    expect((await window.sign()).status).toBe(0);
  });

  it('stop and start from the menu, and turn to the host for what is allowed there', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    const choose = (...words: string[]) => {
      window.fake.onPick = (items) => {
        const word = words.shift() ?? '…';
        return items.find((item) => item.label.includes(word));
      };
      return window.run('openMenu');
    };
    await choose('Stop in this remote');
    expect(window.fake.picks.at(-1)?.items[0]?.label).not.toContain('Stop');
    await window.waitForStatus('off');
    await vi.waitFor(
      async () => expect(existsSync(await window.remote.socket('agent-socket'))).toBe(false),
      PATIENT,
    );
    await choose('Start');
    await window.waitForStatus('ready');
    await choose('What is allowed', 'SSH: build1', 'Never allow');
    await window.waitForStatus('off');
    await choose('Allow…');
    await window.waitForStatus('ready');
    expect((await window.sign()).status).toBe(0);
  });

  it('say in which state the host’s own stop leaves the remote', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    await window.fake.api.commands.executeCommand('gpg-bridge-agent.stop');
    await window.waitForStatus('off');
    expect(window.fake.statusItems[0]?.tooltip).toContain('GPG Bridge is stopped on your computer');
    expect((await window.sign()).status).not.toBe(0);
    // Any extension can run the command: only the dialog starts it again.
    window.answer('Leave Stopped');
    window.fake.onMessage = ({ modal }) => (modal ? 'Leave Stopped' : undefined);
    await window.fake.api.commands.executeCommand('gpg-bridge-agent.start');
    expect((await window.sign()).status).not.toBe(0);
    window.answer('Allow');
    await window.run('start');
    await window.waitForStatus('ready');
    expect((await window.sign()).status).toBe(0);
  });

  it('pause for a while, and go on by themselves', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    window.fake.onPick = (items) => items.find(({ label }) => /Pause…|For 10 minutes/.test(label));
    await window.run('openMenu');
    await window.waitForStatus('paused');
    expect(window.fake.statusItems[0]?.tooltip).toContain('until');
    expect((await window.sign()).status).not.toBe(0);
    await window.run('start');
    await window.waitForStatus('ready');
  });

  it('allow for a time, and say until when', async () => {
    const window = (await Fixture.create()).open();
    await window.waitForStatus('Allow…');
    window.fake.onMessage = ({ modal, buttons }) => (modal ? buttons[1] : undefined);
    window.fake.onPick = (items) => items.find(({ label }) => /Allow for a time|10 minutes/.test(label));
    await window.run('openMenu');
    expect(window.questions).toContain(
      'Allow a remote that calls itself "SSH: build1" to use your GPG keys for 10 minutes?',
    );
    await window.fake.api.commands.executeCommand('_gpg-bridge-agent.checkVersion');
    // The program's directory waits for its confirmation.
    await window.run('allow');
    await window.waitForStatus('ready');
    expect(window.fake.statusItems[0]?.tooltip).toContain('until');
  });

  it('tell of each use, for those who want that', async () => {
    const window = await Fixture.create();
    window.fake.settings.set('gpgBridgeAgent.notifyOnUse', true);
    await window.copyPublicKey();
    window.open();
    await window.allow();
    await window.sign();
    await vi.waitFor(
      () =>
        expect(window.fake.texts.at(-1)).toMatch(
          /^GPG Bridge: "SSH: build1": a signature, done in .*, key of Robin <robin@example.org>$/,
        ),
      PATIENT,
    );
  });

  it('test signing, each step with its cure', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), PATIENT);
    const former = { ...process.env };
    Object.assign(process.env, window.remote.env);
    onTestFinished(() => {
      process.env = former;
    });
    await window.run('testSigning');
    const { title, items } = window.fake.picks.at(-1)!;
    expect(items.map(({ label }) => label)).toEqual([
      '$(pass) Permission',
      '$(pass) gpg-agent of your computer',
      '$(pass) Public keys',
      '$(pass) user.signingKey of git',
      '$(pass) Signature',
      '$(pass) Verification',
    ]);
    expect(window.fake.spoken.join()).not.toContain('$(');
    expect(title).toBe('Signing works in this remote');
    expect(window.fake.contextKeys.get('gpgBridge.step.signed')).toBe(true);
    // Set for a moment, and again when a tab is opened: it may be the walkthrough's.
    await vi.waitFor(() => expect(window.fake.contextKeys.get('gpgBridge.step.signed')).toBe(false), PATIENT);
    window.fake.openTab();
    for (const step of ['remote', 'allowed', 'signed'])
      expect(window.fake.contextKeys.get(`gpgBridge.step.${step}`), step).toBe(true);
    await window.fake.api.commands.executeCommand('gpg-bridge-agent.stop');
    await window.run('testSigning');
    expect(window.fake.picks.at(-1)?.items).toMatchObject([
      { label: '$(error) Permission', detail: expect.stringContaining('→ Allow…') },
    ]);
  });

  it('tell nothing about the host and run nothing there before consent', async () => {
    const window = await Fixture.create();
    const trap = join(await tempDir(), 'trap');
    await mkdir(trap);
    const ran = join(trap, 'ran');
    for (const program of ['gpg', 'gpgconf']) {
      await writeFile(join(trap, program), `#!/bin/sh\ntouch '${ran}'\n`, { mode: 0o755 });
    }
    window.open();
    await window.waitForStatus('Allow…');
    // As an extension of the remote can.
    window.fake.changeSetting('gpgBridgeAgent.gpgBinDir', trap);
    const call = (name: string, ...args: unknown[]) =>
      window.fake.api.commands.executeCommand(`_gpg-bridge-agent.${name}`, ...args);
    for (let n = 0; n < 60; n++) {
      expect(await call('checkVersion', '0.1.0', 'guess')).toEqual({
        ok: true,
        value: { version: '0.1.0', permission: 'undecided' },
      });
    }
    for (const args of [
      ['connectAgent'],
      ['connectAgent', 'x'],
      ['exportPublicKeys', 'all'],
      ['sendCommands', 's', 'PKSIGN\n'],
    ] as const)
      expect(await call(args[0], ...args.slice(1))).toMatchObject({
        ok: false,
        error: { code: 'CONSENT_REQUIRED' },
      });
    expect(existsSync(ran)).toBe(false);
    expect(window.questions).toEqual([]);
    // Allowed, but not the directory: it is asked about, and not used.
    window.fake.onMessage = ({ modal, text }) =>
      !modal ? undefined : text.startsWith('Run') ? 'Do Not Use' : 'Allow';
    await window.run('allow');
    expect(window.questions).toContain('Run the GnuPG programs in this directory?');
    await window.run('syncPublicKeys');
    expect(existsSync(ran)).toBe(false);
  });

  it('keep the token in a private file of the remote, and only its hash on the host', async () => {
    const window = (await Fixture.create()).open();
    await window.allow();
    await window.waitForStatus('ready');
    const files = {
      remote: join(window.storage.remote, 'remote.json'),
      host: join(window.storage.host, 'grants.json'),
    };
    for (const file of Object.values(files)) expect(statSync(file).mode & 0o777).toBe(0o600);
    const [token] = Object.values(JSON.parse(readFileSync(files.remote, 'utf8')).tokens as object);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(readFileSync(files.host, 'utf8')).not.toContain(token);
    // Without it the name alone opens nothing, in a new window neither.
    await window.stop();
    rmSync(files.remote);
    const next = (await window.another()).open();
    await next.waitForStatus('Allow…');
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
    await window.allow();
    await window.waitForStatus('ready');
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
    await window.allow();
    await window.waitForStatus('ready');
    expect(await sync(window, 'All public keys')).toBe('GPG Bridge: 22 keys added.');
    const listed = await window.remote.gpgOk(['--with-colons', '--list-keys']);
    for (const { fingerprint } of keys) expect(listed).toContain(fingerprint);
  });

  it('keeps a choice as the setting, if the person says so', async () => {
    const { window, friend } = await withFriend();
    window.open();
    await window.allow();
    await window.waitForStatus('ready');
    window.fake.onMessage = ({ buttons }) => buttons[0];
    await sync(window, 'Choose', 'Kim');
    await vi.waitFor(
      () => expect(window.fake.settings.get('gpgBridgeRequest.autoSyncPublicKeys')).toEqual([friend]),
      PATIENT,
    );
  });

  it('copies the keys of a list at the start', async () => {
    const { window, friend } = await withFriend();
    window.fake.settings.set('gpgBridgeRequest.autoSyncPublicKeys', [friend]);
    window.open();
    await window.allow();
    await vi.waitFor(() => expect(window.fake.texts).toContain('GPG Bridge: 1 key added.'), {
      timeout: 30_000,
    });
  });

  it('says what is wrong with a list that names no key', async () => {
    const { window } = await withFriend();
    window.fake.settings.set('gpgBridgeRequest.autoSyncPublicKeys', ['nobody@example.com']);
    window.open();
    await window.allow();
    await window.waitForStatus('error');
    expect(window.fake.statusItems[0]?.tooltip).toContain('gpg knows no public key "nobody@example.com"');
    // A setting acts when it is changed, and a wrong value is said.
    window.fake.changeSetting('gpgBridgeRequest.autoSyncPublicKeys', 'pears');
    await vi.waitFor(
      () => expect(window.fake.texts.at(-1)).toContain('autoSyncPublicKeys is "pears"'),
      PATIENT,
    );
    window.fake.changeSetting('gpgBridgeRequest.autoSyncPublicKeys', 'pairs');
    await window.waitForStatus('ready');
    expect(window.fake.texts).toContain('GPG Bridge: 1 key added.');
  });

  it('does nothing when the person closes the list', async () => {
    const { window } = await withFriend();
    window.open();
    await window.allow();
    await window.waitForStatus('ready');
    const before = window.fake.messages.length;
    window.fake.onPick = () => undefined;
    await window.fake.api.commands.executeCommand('gpg-bridge-request.syncPublicKeys');
    expect(window.fake.messages).toHaveLength(before);
  });
});

describe('two windows of one remote', () => {
  async function twoWindows(): Promise<[Fixture, Fixture]> {
    const first = await Fixture.create();
    await first.copyPublicKey();
    first.open();
    await first.waitForStatus('Allow…');
    const second = (await first.another()).open();
    await second.waitForStatus('Allow…');
    return [first, second];
  }

  /** The window that holds the socket, and the other. */
  function ownerFirst(...windows: [Fixture, Fixture]): [Fixture, Fixture] {
    const holds = ({ fake }: Fixture) =>
      fake.statusItems[0]?.tooltip?.toString().includes('holds the gpg') === false;
    return holds(windows[0]) ? windows : [windows[1], windows[0]];
  }

  it('share its socket, and the second takes over', async () => {
    const [first, second] = await twoWindows();
    await first.run('allow');
    await first.waitForStatus('ready');
    await second.waitForStatus('shared');
    expect(second.fake.statusItems[0]?.tooltip).toContain('The window "project" holds the gpg socket.');
    expect((await first.sign()).status).toBe(0);
    await first.stop();
    await second.waitForStatus('ready');
    expect((await first.sign()).status).toBe(0);
    // It was the second window that carried it.
    expect(second.fake.logged.join('\n')).toContain('info PKSIGN');
    expect(second.questions).toEqual([]);
  });

  it('have one truth: allowed in one is allowed in both, and so is what was used', async () => {
    const [first, second] = await twoWindows();
    await second.run('allow');
    await vi.waitFor(
      () => expect([first.status, second.status].sort()).toEqual(['ready', 'shared']),
      PATIENT,
    );
    expect((await first.sign()).status).toBe(0);
    for (const window of [first, second]) {
      await vi.waitFor(async () => {
        await window.run('openMenu');
        window.fake.onPick = (items) => items.find(({ label }) => label.includes('Recent operations'));
        await window.run('openMenu');
        expect(window.fake.picks.at(-1)?.items[0]).toMatchObject({
          label: expect.stringContaining('a signature, done'),
          detail: 'Robin <robin@example.org>',
        });
      }, PATIENT);
    }
  });

  it('let Only Now in one of them sign, through that one', async () => {
    const [first, second] = await twoWindows();
    second.answer('Only Now');
    await second.run('allow');
    await second.waitForStatus('ready');
    await first.waitForStatus('shared');
    expect((await first.sign()).status).toBe(0);
    await second.stop();
    await first.waitForStatus('Allow…');
  });

  it('stop together and start together', async () => {
    const [first, second] = await twoWindows();
    await first.run('allow');
    await second.waitForStatus('shared');
    await second.run('stop');
    await first.waitForStatus('off');
    await second.waitForStatus('off');
    await vi.waitFor(
      async () => expect(existsSync(await first.remote.socket('agent-socket'))).toBe(false),
      PATIENT,
    );
    await first.run('start');
    await vi.waitFor(
      () => expect([first.status, second.status].sort()).toEqual(['ready', 'shared']),
      PATIENT,
    );
    await second.fake.api.commands.executeCommand('gpg-bridge-agent.stop');
    await first.waitForStatus('off');
    await second.waitForStatus('off');
    expect((await first.sign()).status).not.toBe(0);
    const [owner, other] = ownerFirst(first, second);
    await owner.run('start');
    await owner.waitForStatus('ready');
    await other.waitForStatus('shared');
    expect((await first.sign()).status).toBe(0);
  });

  it('stop together from a window without a folder, and start together', async () => {
    const first = (await Fixture.create()).open();
    await first.allow();
    await first.waitForStatus('ready');
    const empty = await first.another();
    empty.fake.workspace.workspaceFolders = [];
    empty.open();
    await empty.waitForStatus('shared');
    await empty.run('stop');
    await Promise.all([first, empty].map((window) => window.waitForStatus('off')));
    expect((await empty.sign()).status).not.toBe(0);
    for (const window of [first, empty])
      expect(
        ['start', 'stop', 'allow'].map((step) => window.fake.contextKeys.get(`gpgBridge.can.${step}`)),
      ).toEqual([true, false, false]);
    await first.run('start');
    await first.waitForStatus('ready');
  });

  it('both say that a passphrase is being waited for', async () => {
    const [first, second] = await twoWindows();
    await first.run('allow');
    await first.waitForStatus('ready');
    await second.waitForStatus('shared');
    let resolve = () => {};
    const answered = new Promise<void>((done) => {
      resolve = done;
    });
    const send = first.fake.handlers.get('_gpg-bridge-agent.sendCommands')!;
    first.fake.handlers.set('_gpg-bridge-agent.sendCommands', async (...args: never[]) => {
      if (String(args[1]).startsWith('PKSIGN')) await answered;
      return send(...args);
    });
    const signing = first.sign();
    await first.waitForStatus('waiting for you');
    await second.waitForStatus('waiting for you');
    await vi.waitFor(
      () =>
        expect(second.fake.progress).toContain(
          'Waiting for your PIN or touch: a signature with the key of Robin <robin@example.org> in this remote',
        ),
      PATIENT,
    );
    resolve();
    expect((await signing).status).toBe(0);
    await second.waitForStatus('shared');
  });
});
