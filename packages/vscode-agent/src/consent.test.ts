import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { ConfirmedSettings } from './confirmed-settings.ts';
import { Consent, type ConsentAnswer } from './consent.ts';
import { GrantStore } from './grant-store.ts';
import type { Remote } from './remote-authority.ts';

const BUILD1: Remote = { authority: 'ssh-remote+build1', label: 'SSH: build1', certain: true };
const BUILD2: Remote = { authority: 'ssh-remote+build2', label: 'SSH: build2', certain: true };
const EMPTY_WINDOW: Remote = { authority: 'ssh-remote', label: 'SSH', certain: false };
const ALLOW: ConsentAnswer = { is: 'allow' };

/** Consent with a person who answers as the test says. */
async function setUp(answer?: ConsentAnswer, directory?: string, consentSetting = 'ask') {
  const storage = directory ?? (await tempDir());
  const person = {
    answer,
    starts: false,
    confirms: false as boolean | undefined,
    written: { gpgBinDir: '', consent: consentSetting },
    asked: [] as string[],
    clock: 0,
  };
  const store = new GrantStore(storage);
  const settings = new ConfirmedSettings({
    store,
    written: () => person.written,
    confirm: async (name, value) => {
      person.asked.push(`${name}=${value}?`);
      return person.confirms;
    },
  });
  const consent = new Consent({
    store,
    settings,
    dialogs: {
      ask: async ({ label }) => {
        person.asked.push(label);
        return person.answer;
      },
      confirmStart: async (what) => {
        person.asked.push(what);
        return person.starts;
      },
    },
    now: () => person.clock,
  });
  const standing = (remote: Remote, token?: string) => consent.standing(remote, token).permission;
  return { person, consent, storage, settings, store, standing };
}

describe('Consent', () => {
  it('asks once, and keeps Allow for the next window that shows the token', async () => {
    const { consent, person, storage, standing } = await setUp(ALLOW);
    expect(standing(BUILD1)).toBe('undecided');
    const token = await consent.ask(BUILD1, undefined, 'program-asks');
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(standing(BUILD1, token)).toBe('allowed');
    expect(await consent.ask(BUILD1, token, 'program-asks')).toBeUndefined();
    expect(person.asked).toEqual(['SSH: build1']);
    const next = await setUp(undefined, storage);
    expect(next.standing(BUILD1, token)).toBe('allowed');
    // A name alone opens nothing, nor does a token under another name.
    expect(next.standing(BUILD1)).toBe('undecided');
    expect(next.standing(BUILD1, 'x'.repeat(43))).toBe('undecided');
    expect(next.standing(BUILD2, token)).toBe('undecided');
    expect(readFileSync(join(storage, 'grants.json'), 'utf8')).not.toContain(token);
  });

  it('binds the token that a remote has to another name of it, too', async () => {
    const { consent, standing } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'program-asks');
    expect(await consent.ask(BUILD2, token, 'program-asks')).toBe(token);
    expect(standing(BUILD1, token)).toBe('allowed');
    expect(standing(BUILD2, token)).toBe('allowed');
    const other = await consent.ask(BUILD2, 'made up', 'program-asks');
    expect(other).not.toBe('made up');
    expect(standing(BUILD2, 'made up')).toBe('undecided');
  });

  it('allows a window whose remote is not certain for that window only', async () => {
    const { consent, storage, standing } = await setUp(ALLOW);
    expect(await consent.ask(EMPTY_WINDOW, undefined, 'person-asks')).toBeUndefined();
    expect(standing(EMPTY_WINDOW)).toBe('allowed');
    const next = await setUp(undefined, storage);
    expect(next.standing(EMPTY_WINDOW)).toBe('undecided');
    expect(next.standing(BUILD1)).toBe('undecided');
  });

  it('does not let a certain grant count in a window that is not', async () => {
    const { consent, standing } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    expect(standing({ ...BUILD1, certain: false }, token)).toBe('undecided');
  });

  it('keeps Only Now for this window alone', async () => {
    const { consent, storage, standing } = await setUp({ is: 'only-now' });
    await consent.ask(BUILD1, undefined, 'program-asks');
    expect(standing(BUILD1)).toBe('allowed');
    expect(consent.decisions(BUILD1)).toMatchObject([{ label: 'SSH: build1', answer: 'only-now' }]);
    expect((await setUp(undefined, storage)).standing(BUILD1)).toBe('undecided');
  });

  it('keeps Never, says why, and asks again only when the person wants that', async () => {
    const { consent, person, storage } = await setUp({ is: 'never' });
    await consent.ask(BUILD1, undefined, 'program-asks');
    await consent.ask(BUILD1, undefined, 'program-asks');
    expect(() => consent.assertAllowed(BUILD1, undefined)).toThrow(
      expect.objectContaining({
        code: 'CONSENT_DENIED',
        why: 'you chose never to allow SSH: build1 to use them',
      }),
    );
    const next = await setUp(ALLOW, storage);
    await next.consent.ask(BUILD1, undefined, 'program-asks');
    expect(next.person.asked).toEqual([]);
    await next.consent.ask(BUILD1, undefined, 'person-asks');
    expect(next.person.asked).toEqual(['SSH: build1']);
    expect(person.asked).toHaveLength(1);
  });

  it('shows one dialog to clients that ask at the same time', async () => {
    const { consent, person } = await setUp(ALLOW);
    const tokens = await Promise.all(
      Array.from({ length: 20 }, () => consent.ask(BUILD1, undefined, 'program-asks')),
    );
    expect(person.asked).toHaveLength(1);
    expect(new Set(tokens).size).toBe(1);
  });

  it('leaves the person in peace after a dialog was closed, longer each time', async () => {
    const { consent, person } = await setUp(undefined);
    const askAt = async (clock: number) => {
      person.clock = clock;
      await consent.ask(BUILD1, undefined, 'program-asks');
      return person.asked.length;
    };
    expect(await askAt(0)).toBe(1);
    expect(await askAt(9_999)).toBe(1);
    expect(await askAt(10_000)).toBe(2);
    expect(await askAt(69_999)).toBe(2);
    expect(await askAt(70_000)).toBe(3);
    expect(await askAt(669_999)).toBe(3);
    // What the person does themselves is never held back.
    await consent.ask(BUILD1, undefined, 'person-asks');
    expect(person.asked).toHaveLength(4);
  });

  it('allows for a time', async () => {
    const { consent, person, standing } = await setUp({ is: 'allow', forMs: 1_000 });
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    expect(consent.standing(BUILD1, token)).toEqual({ permission: 'allowed', until: 1_000 });
    expect(consent.nextEnd()).toBe(1_000);
    person.clock = 1_000;
    expect(standing(BUILD1, token)).toBe('undecided');
    expect(consent.nextEnd()).toBeUndefined();
  });

  it('stays stopped, whoever starts it, until the person confirms', async () => {
    const { consent, person, storage, standing } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    consent.stop('computer', BUILD1);
    expect(standing(BUILD1, token)).toBe('stopped');
    // Nobody is asked meanwhile, and a remote without a grant is not told.
    await consent.ask(BUILD2, undefined, 'program-asks');
    expect(standing(BUILD2)).toBe('undecided');
    expect(await consent.start(BUILD1)).toBe(false);
    expect((await setUp(undefined, storage)).standing(BUILD1, token)).toBe('stopped');
    expect(person.asked).toEqual(['SSH: build1', 'GPG Bridge is stopped on this computer.']);
    person.starts = true;
    expect(await consent.start(BUILD1)).toBe(true);
    expect(standing(BUILD1, token)).toBe('allowed');
    expect(await consent.start(BUILD1)).toBe(true);
    expect(person.asked).toHaveLength(3);
  });

  it('stops one remote in all its windows, and no other', async () => {
    const { consent, person, storage, standing } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    const other = await consent.ask(BUILD2, undefined, 'person-asks');
    consent.stop('remote', BUILD1);
    const next = await setUp(undefined, storage);
    expect(next.standing(BUILD1, token)).toBe('off');
    expect(next.standing(BUILD2, other)).toBe('allowed');
    person.starts = true;
    await consent.start(BUILD1);
    expect(standing(BUILD1, token)).toBe('allowed');
  });

  it('pauses for a time', async () => {
    const { consent, person } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    consent.stop('computer', BUILD1, 5_000);
    expect(consent.standing(BUILD1, token)).toEqual({ permission: 'paused', until: 5_000 });
    person.clock = 5_000;
    expect(consent.standing(BUILD1, token)).toEqual({ permission: 'allowed' });
  });

  it('can be changed and forgotten', async () => {
    const { consent, standing } = await setUp(ALLOW);
    const token = await consent.ask(BUILD1, undefined, 'person-asks');
    consent.decide(BUILD1, { is: 'never' });
    expect(standing(BUILD1, token)).toBe('refused');
    consent.decide(BUILD1, { is: 'only-now' });
    expect(standing(BUILD1)).toBe('allowed');
    consent.forget(BUILD1.authority, true);
    expect(standing(BUILD1, token)).toBe('undecided');
  });

  it.each(['__proto__', 'constructor', 'toString'])(
    'has no answer for a remote called %s',
    async (authority) => {
      const { consent, standing } = await setUp(ALLOW);
      const remote = { authority, label: authority, certain: true };
      expect(standing(remote)).toBe('undecided');
      await consent.ask(remote, undefined, 'program-asks');
    },
  );
});

describe('the setting `always`', () => {
  it('opens nothing until it is confirmed here', async () => {
    const { consent, person, standing } = await setUp(undefined);
    person.written.consent = 'always';
    expect(standing(BUILD1)).toBe('undecided');
    person.confirms = true;
    await consent.ask(BUILD1, undefined, 'program-asks');
    expect(person.asked).toEqual(['consent=always?']);
    expect(standing(BUILD1)).toBe('allowed');
    expect(standing(BUILD2)).toBe('allowed');
    expect(standing(EMPTY_WINDOW)).toBe('undecided');
  });

  it('is asked about once: a no is remembered, in the next window too', async () => {
    const { consent, person, storage } = await setUp(undefined, undefined, 'always');
    await consent.ask(BUILD1, undefined, 'person-asks');
    expect(person.asked).toEqual(['consent=always?', 'SSH: build1']);
    const next = await setUp(undefined, storage, 'always');
    await next.consent.ask(BUILD1, undefined, 'person-asks');
    expect(next.person.asked).toEqual(['SSH: build1']);
  });

  it('has to be confirmed again when it was taken back in between', async () => {
    const { consent, person, settings, standing } = await setUp(undefined);
    person.written.consent = 'always';
    person.confirms = true;
    await consent.ask(BUILD1, undefined, 'program-asks');
    person.written.consent = 'ask';
    expect(standing(BUILD1)).toBe('undecided');
    // As the extension does when VS Code tells it of a change.
    settings.forgetWithdrawn();
    person.written.consent = 'always';
    settings.forgetWithdrawn();
    expect(standing(BUILD1)).toBe('undecided');
  });

  it('does not win over Never', async () => {
    const { consent, person, standing } = await setUp({ is: 'never' });
    await consent.ask(BUILD1, undefined, 'program-asks');
    person.written.consent = 'always';
    person.confirms = true;
    await consent.ask(BUILD2, undefined, 'program-asks');
    expect(standing(BUILD2)).toBe('allowed');
    expect(standing(BUILD1)).toBe('refused');
  });
});

describe('the setting `gpgBinDir`', () => {
  it('acts once that very value is confirmed', async () => {
    const { person, settings } = await setUp();
    person.written.gpgBinDir = '/opt/one';
    expect(settings.gpgBinDir()).toBeUndefined();
    expect(settings.unconfirmedBinDir()).toBe('/opt/one');
    person.confirms = true;
    await settings.confirm();
    await settings.confirm();
    expect(person.asked).toEqual(['gpgBinDir=/opt/one?']);
    expect(settings.gpgBinDir()).toBe('/opt/one');
    person.written.gpgBinDir = '/opt/two';
    expect(settings.gpgBinDir()).toBeUndefined();
    person.confirms = false;
    await settings.confirm();
    await settings.confirm();
    expect(person.asked).toEqual(['gpgBinDir=/opt/one?', 'gpgBinDir=/opt/two?']);
    expect(settings.gpgBinDir()).toBeUndefined();
    person.confirms = true;
    await settings.reconsider('gpgBinDir');
    expect(settings.gpgBinDir()).toBe('/opt/two');
    settings.decline('gpgBinDir');
    expect(settings.gpgBinDir()).toBeUndefined();
  });

  it('is not asked about again by programs when the dialog was closed, and is when the person asks', async () => {
    const { consent, person, settings, store } = await setUp(ALLOW);
    person.written.gpgBinDir = '/opt/one';
    person.confirms = undefined;
    const token = await consent.ask(BUILD1, undefined, 'program-asks');
    await settings.confirm();
    expect(person.asked).toEqual(['SSH: build1', 'gpgBinDir=/opt/one?']);
    expect(store.read().declined).toEqual({});
    expect(settings.unconfirmedBinDir()).toBe('/opt/one');
    person.confirms = true;
    await consent.ask(BUILD1, token, 'person-asks');
    expect(settings.gpgBinDir()).toBe('/opt/one');
  });

  it.each(['\\\\evil\\share', '//evil/share', '\\/evil\\share', 'bin', './gpg'])(
    'is refused when it is %s, without a question',
    async (path) => {
      const { person, settings } = await setUp();
      person.written.gpgBinDir = path;
      person.confirms = true;
      const refused = expect.objectContaining({ code: 'SETTING_REFUSED' });
      expect(() => settings.gpgBinDir()).toThrow(refused);
      await expect(settings.confirm()).rejects.toThrow(refused);
      expect(person.asked).toEqual([]);
    },
  );
});
