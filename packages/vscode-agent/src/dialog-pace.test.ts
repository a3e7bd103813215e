import { FakeVsCode } from '@gpg-bridge/test-support/fake-vscode';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { ConfirmedSettings } from './confirmed-settings.ts';
import { Consent } from './consent.ts';
import { consentDialogs } from './consent-dialogs.ts';
import { DialogPace } from './dialog-pace.ts';
import { GrantStore } from './grant-store.ts';

const HERE = { authority: 'ssh-remote+build1', label: 'SSH: build1', certain: true };

/** A host whose person presses this in every dialog. */
async function setUp(button?: string) {
  const fake = new FakeVsCode();
  const person = { clock: 0, button };
  fake.onMessage = () => person.button;
  const now = () => person.clock;
  const dialogs = consentDialogs(fake.api, new DialogPace(now));
  const store = new GrantStore(await tempDir());
  const written = { gpgBinDir: '', consent: 'ask' };
  const settings = new ConfirmedSettings({
    store,
    written: () => written,
    confirm: (name, value) => dialogs.confirmSetting(name, value),
    platform: 'linux',
  });
  const consent = new Consent({ store, dialogs, settings, now });
  /** How many dialogs there were so far. */
  const dialogsSoFar = () => fake.messages.filter(({ modal }) => modal).length;
  return { fake, person, consent, settings, written, dialogsSoFar };
}

describe('an extension that says that the person asks', () => {
  it.each(['Not Now', 'Never', undefined])('has ten dialogs, and then one a minute (%s)', async (button) => {
    const { fake, person, consent, dialogsSoFar } = await setUp(button);
    const ask = async (times = 1) => {
      for (let time = 0; time < times; time++) await consent.ask(HERE, undefined, 'person-asks');
      return dialogsSoFar();
    };
    expect(await ask(20)).toBe(10);
    expect(fake.texts.filter((text) => text.includes('not asked for a while'))).toHaveLength(1);
    person.clock = 59_999;
    expect(await ask()).toBe(10);
    for (const dialogs of [11, 12, 13]) {
      person.clock += 60_000;
      expect(await ask(5)).toBe(dialogs);
    }
    person.clock += 60_000;
    expect(await ask()).toBe(13);
    person.clock += 10 * 60_000;
    expect(await ask()).toBe(14);
  });

  it('can start nothing by asking on and on', async () => {
    const { consent, dialogsSoFar } = await setUp('Leave Stopped');
    consent.stop('computer', HERE);
    for (let time = 0; time < 20; time++) expect(await consent.start(HERE)).toBe(false);
    expect(dialogsSoFar()).toBe(10);
  });

  it('gets no dialog for each value that it writes', async () => {
    const { written, settings, dialogsSoFar } = await setUp('Do Not Use');
    for (let time = 0; time < 20; time++) {
      written.gpgBinDir = `/opt/gnupg${time}`;
      await settings.confirm(['gpgBinDir'], { personAsks: true });
    }
    expect(dialogsSoFar()).toBe(10);
    expect(settings.gpgBinDir()).toBeUndefined();
  });
});

it('a person who agrees is asked as often as they like', async () => {
  const { person, consent, dialogsSoFar } = await setUp('Only Now');
  for (let time = 1; time <= 20; time++) {
    await consent.ask(HERE, undefined, 'person-asks');
    expect(dialogsSoFar()).toBe(time);
    consent.forget(HERE.authority, true);
  }
  person.button = undefined;
  await consent.ask(HERE, undefined, 'person-asks');
  person.clock += 61 * 60_000;
  for (let time = 0; time < 10; time++) await consent.ask(HERE, undefined, 'person-asks');
  expect(dialogsSoFar()).toBe(31);
});
