import { KeyNames } from '@gpg-bridge/core/gnupg/key-names';
import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { RecentOperations } from '@gpg-bridge/vscode-shared/recent-operations';
import { describe, expect, it } from 'vitest';
import type { QuickPickItem } from 'vscode';
import { ConfirmedSettings } from './confirmed-settings.ts';
import { Consent } from './consent.ts';
import { consentDialogs } from './consent-dialogs.ts';
import { GrantStore } from './grant-store.ts';
import { HostMenu } from './menu.ts';

const HERE = { authority: 'ssh-remote+build1', label: 'SSH: build1', certain: true };
const GRIP = 'A'.repeat(40);

async function setUp() {
  const fake = new FakeVsCode();
  const dialogs = consentDialogs(fake.api);
  const store = new GrantStore(await tempDir());
  const written = { gpgBinDir: '', consent: 'ask' };
  const settings = new ConfirmedSettings({
    store,
    written: () => written,
    confirm: (name, value) => dialogs.confirmSetting(name, value),
  });
  const consent = new Consent({ store, dialogs, settings });
  const operations = new RecentOperations();
  const done: string[] = [];
  const tokens: (string | undefined)[] = [];
  const menu = new HostMenu({
    vs: fake.api,
    consent,
    settings,
    store,
    dialogs,
    operations,
    names: new KeyNames(async () => [
      {
        fingerprint: 'F',
        userId: 'Zoë <z@x>',
        secret: true,
        revoked: false,
        expired: false,
        keygrips: [GRIP],
      },
    ]),
    remote: () => HERE,
    giveToken: (token) => void tokens.push(token),
    hasRemoteHalf: async () => true,
    start: () => consent.start(HERE),
    installRemoteHalf: async () => {},
    showStatus: () => {},
    showLog: () => void done.push('log'),
    showRecord: () => void done.push('record'),
  });
  const standing = () => consent.standing(HERE, tokens.at(-1)).permission;
  return { fake, consent, operations, menu, done, standing, settings, written, tokens };
}

/** A person who picks the first item of each list whose label has these words. */
function picking(...words: string[]) {
  return (items: QuickPickItem[]) => {
    const word = words.shift() ?? 'nothing more to pick';
    return items.find((item) => item.label.includes(word));
  };
}

describe('HostMenu', () => {
  it('stops and starts, and says which; neither comes first', async () => {
    const { fake, menu, consent, standing, tokens } = await setUp();
    tokens.push(consent.decide(HERE, { is: 'allow' }));
    fake.onPick = picking('Stop on this computer', 'Start');
    await menu.open();
    expect(standing()).toBe('stopped');
    expect(fake.picks[0]?.items[0]?.label).toContain('What is allowed');
    fake.onMessage = () => 'Leave Stopped';
    await menu.open();
    expect(standing()).toBe('stopped');
    expect(fake.messages[0]).toMatchObject({ modal: true, buttons: ['Leave Stopped', 'Start'] });
    fake.onMessage = () => 'Start';
    fake.onPick = picking('Start');
    await menu.open();
    expect(standing()).toBe('allowed');
    expect(fake.picks.map((pick) => pick.title)).toEqual([
      'GPG Bridge on this computer: ready',
      'GPG Bridge on this computer: stopped',
      'GPG Bridge on this computer: stopped',
    ]);
  });

  it('shows what is allowed, this window’s remote in any case', async () => {
    const { fake, menu, consent } = await setUp();
    consent.decide({ authority: 'wsl+U', label: 'WSL: U', certain: true }, { is: 'never' });
    await menu.open('allowed');
    expect(fake.picks[0]?.items).toMatchObject([
      { label: '$(question) SSH: build1', description: 'Not decided yet · this window' },
      { label: '$(circle-slash) WSL: U', description: 'Never allowed' },
    ]);
  });

  it('shows what follows from `always`, and takes it back', async () => {
    const { fake, menu, settings, written, standing } = await setUp();
    written.consent = 'always';
    fake.onMessage = () => 'Allow Every Remote';
    await settings.confirm();
    fake.onPick = picking('Every remote', 'Take the confirmation back');
    await menu.open('allowed');
    expect(fake.messages[0]?.buttons).toEqual(['Ask About Each', 'Allow Every Remote']);
    expect(fake.picks[0]?.items).toMatchObject([
      { label: '$(check) SSH: build1', description: 'Allowed, as every remote is · this window' },
      { label: '$(check) Every remote (setting "consent: always")', description: 'Confirmed' },
    ]);
    expect(standing()).toBe('undecided');
    await menu.open('allowed');
    expect(fake.picks.at(-1)?.items[1]).toMatchObject({ description: 'Declined' });
  });

  it('shows the answer about the remote’s own keys, and hands back that it is to be forgotten', async () => {
    const { fake, menu } = await setUp();
    fake.onPick = picking('Private keys of this remote');
    expect(await menu.open('allowed', 'set-aside')).toBe('forget-own-keys');
    expect(await menu.open('allowed', 'nonsense')).toBeUndefined();
  });

  it('takes a permission back', async () => {
    const { fake, menu, consent, standing } = await setUp();
    consent.decide(HERE, { is: 'allow' });
    fake.onPick = picking('SSH: build1', 'Never allow');
    await menu.open('allowed');
    expect(standing()).toBe('refused');
    expect(fake.messages).toEqual([]);
  });

  it('forgets an answer', async () => {
    const { fake, menu, consent, standing } = await setUp();
    consent.decide(HERE, { is: 'never' });
    fake.onPick = picking('SSH: build1', 'Forget');
    await menu.open('allowed');
    expect(standing()).toBe('undecided');
  });

  it('allows nothing by a pick alone: the modal dialog has to be answered, and Enter grants nothing', async () => {
    const { fake, menu, consent, standing } = await setUp();
    consent.decide(HERE, { is: 'never' });
    fake.onPick = picking('SSH: build1', 'Allow…');
    fake.onMessage = ({ buttons }) => buttons[0];
    await menu.open('allowed');
    expect(standing()).toBe('refused');
    expect(fake.messages).toMatchObject([
      { modal: true, buttons: ['Not Now', 'Only Now', 'Allow', 'Never'] },
    ]);
    fake.onPick = picking('SSH: build1', 'Allow…');
    fake.onMessage = () => 'Allow';
    await menu.open('allowed');
    expect(standing()).toBe('allowed');
  });

  it('allows for a time', async () => {
    const { fake, menu, consent, tokens } = await setUp();
    fake.onPick = picking('1 hour');
    fake.onMessage = ({ buttons }) => buttons[0];
    await menu.open('allow-for');
    expect(tokens).toEqual([]);
    expect(fake.messages[0]?.buttons).toEqual(['Not Now', 'Allow for 1 hour']);
    fake.onPick = picking('1 hour');
    fake.onMessage = ({ buttons }) => buttons[1];
    await menu.open('allow-for');
    const { until } = consent.standing(HERE, tokens[0]);
    expect(until! - Date.now()).toBeGreaterThan(3_590_000);
    expect(until! - Date.now()).toBeLessThanOrEqual(3_600_000);
  });

  it('shows what the keys were used for, with their owners’ names', async () => {
    const { fake, menu, operations, done } = await setUp();
    operations.add({ command: 'HAVEKEY', outcome: 'ok', startedAt: 0, durationMs: 1 });
    operations.add({
      command: 'PKSIGN',
      key: GRIP,
      outcome: 'error',
      errorCode: (4 << 24) | 11,
      startedAt: 0,
      durationMs: 900,
    });
    operations.add({
      command: 'PKDECRYPT',
      key: 'B'.repeat(40),
      outcome: 'cancelled',
      startedAt: 0,
      durationMs: 2_500,
    });
    operations.add({ command: 'PKSIGN', key: GRIP, outcome: 'ok', startedAt: 0, durationMs: 42 });
    fake.onPick = picking('a signature');
    await menu.open('operations');
    expect(fake.picks[0]?.items).toMatchObject([
      { label: '$(check) a signature, done in 42 ms', detail: 'Zoë <z@x>' },
      { label: '$(warning) a decryption, cancelled by you after 2.5 s', detail: `key ${'B'.repeat(40)}` },
      { label: '$(warning) a signature, wrong passphrase after 900 ms', detail: 'Zoë <z@x>' },
      { label: '$(list-unordered) Show Everything on Record' },
    ]);
    expect(done).toEqual(['log']);
    // A screen reader hears words, and no icon's name.
    expect(fake.spoken[0]).toBe('a signature, done in 42 ms');
  });

  it('says so when there is nothing to show', async () => {
    const { fake, menu } = await setUp();
    await menu.open('operations');
    expect(fake.texts).toEqual(['Your keys have not been used through GPG Bridge in this window.']);
  });

  it('leads to everything that is on record', async () => {
    const { fake, menu, operations, done } = await setUp();
    fake.onMessage = () => 'Show Everything on Record';
    await menu.open('operations');
    await expect.poll(() => done).toEqual(['record']);
    operations.add({ command: 'PKSIGN', key: GRIP, outcome: 'refused', startedAt: 0, durationMs: 1 });
    fake.onPick = picking('Show Everything on Record');
    await menu.open('operations');
    expect(fake.picks[0]?.items[0]?.label).toBe('$(warning) a signature, refused by GPG Bridge after 1 ms');
    expect(done).toEqual(['record', 'record']);
  });

  it.each([undefined, 'constructor', 7, { page: 'allowed' }])('opens its first page for %j', async (page) => {
    const { fake, menu } = await setUp();
    await menu.open(page);
    expect(fake.picks[0]?.title).toContain('on this computer');
  });
});

describe('RecentOperations', () => {
  it('keeps the last fifty', () => {
    const operations = new RecentOperations();
    for (let n = 0; n < 80; n++)
      operations.add({ command: 'PKSIGN', outcome: 'ok', startedAt: n, durationMs: 0 });
    expect(operations.list()).toHaveLength(50);
    expect(operations.list()[0]?.startedAt).toBe(79);
  });
});
