import { FakeVsCode, fakeMemento } from '@gpg-bridge/test-support/fake-vscode';
import { describe, expect, it } from 'vitest';
import type { QuickPickItem } from 'vscode';
import { Consent } from './consent.ts';
import { consentDialogs } from './consent-dialogs.ts';
import { HostMenu } from './menu.ts';
import { RecentOperations } from './recent-operations.ts';

const HERE = { authority: 'ssh-remote+build1', label: 'SSH: build1' };
const GRIP = 'A'.repeat(40);

function setUp() {
  const fake = new FakeVsCode();
  const dialogs = consentDialogs(fake.api);
  const consent = new Consent({ store: fakeMemento(), dialogs, always: () => false });
  const operations = new RecentOperations();
  const done: string[] = [];
  let on = true;
  const menu = new HostMenu({
    vs: fake.api,
    consent,
    dialogs,
    operations,
    remote: () => HERE,
    isOn: () => on,
    start: () => void (on = true),
    stop: async () => void (on = false),
    showLog: () => void done.push('log'),
    listKeys: async () => [
      { fingerprint: 'F', userId: 'Zoë <z@x>', secret: true, revoked: false, keygrips: [GRIP] },
    ],
  });
  return { fake, consent, operations, menu, done, isOn: () => on };
}

/** A person who picks the first item of each list whose label has these words. */
function picking(...words: string[]) {
  return (items: QuickPickItem[]) => {
    const word = words.shift() ?? 'nothing more to pick';
    return items.find((item) => item.label.includes(word));
  };
}

describe('HostMenu', () => {
  it('stops and starts, and says which', async () => {
    const { fake, menu, isOn } = setUp();
    fake.onPick = picking('Stop', 'Start');
    await menu.open();
    expect(isOn()).toBe(false);
    await menu.open();
    expect(isOn()).toBe(true);
    expect(fake.picks.map((pick) => pick.title)).toEqual([
      'GPG Bridge on this computer: ready',
      'GPG Bridge on this computer: stopped',
    ]);
  });

  it('shows what is allowed, this window’s remote in any case', async () => {
    const { fake, menu, consent } = setUp();
    await consent.decide({ authority: 'wsl', label: 'WSL' }, 'never');
    await menu.open('allowed');
    expect(fake.picks[0]?.items).toMatchObject([
      { label: '$(question) SSH: build1', description: 'Not decided yet' },
      { label: '$(circle-slash) WSL', description: 'Never allowed' },
    ]);
  });

  it('takes a permission back', async () => {
    const { fake, menu, consent } = setUp();
    await consent.decide(HERE, 'allow');
    fake.onPick = picking('SSH: build1', 'Never allow');
    await menu.open('allowed');
    expect(consent.standingOf(HERE)).toBe('never');
    expect(fake.messages).toEqual([]);
  });

  it('forgets an answer', async () => {
    const { fake, menu, consent } = setUp();
    await consent.decide(HERE, 'never');
    fake.onPick = picking('SSH: build1', 'Forget');
    await menu.open('allowed');
    expect(consent.standingOf(HERE)).toBe('ask');
  });

  it('allows nothing by a pick alone: the modal dialog has to be answered', async () => {
    const { fake, menu, consent } = setUp();
    await consent.decide(HERE, 'never');
    fake.onPick = picking('SSH: build1', 'Allow…');
    await menu.open('allowed');
    expect(consent.standingOf(HERE)).toBe('never');
    expect(fake.messages).toMatchObject([{ modal: true, buttons: ['Allow', 'Only now', 'Never'] }]);
    fake.onPick = picking('SSH: build1', 'Allow…');
    fake.onMessage = () => 'Allow';
    await menu.open('allowed');
    expect(consent.standingOf(HERE)).toBe('allow');
  });

  it('shows what the keys were used for, with their owners’ names', async () => {
    const { fake, menu, operations, done } = setUp();
    operations.add({ command: 'HAVEKEY', outcome: 'ok', startedAt: 0, durationMs: 1 });
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
    ]);
    expect(done).toEqual(['log']);
  });

  it('says so when there is nothing to show', async () => {
    const { fake, menu } = setUp();
    await menu.open('operations');
    expect(fake.texts).toEqual(['Your keys have not been used through GPG Bridge in this window.']);
  });

  it.each([undefined, 'constructor', 7, { page: 'allowed' }])('opens its first page for %j', async (page) => {
    const { fake, menu } = setUp();
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
