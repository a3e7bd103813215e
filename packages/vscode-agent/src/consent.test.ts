import { fakeMemento } from '@gpg-bridge/test-support/fake-vscode';
import { describe, expect, it } from 'vitest';
import { Consent, type ConsentAnswer } from './consent.ts';

const BUILD1 = { authority: 'ssh-remote+build1', label: 'SSH: build1' };
const BUILD2 = { authority: 'ssh-remote+build2', label: 'SSH: build2' };
const DENIED = expect.objectContaining({ code: 'CONSENT_DENIED' });

/** Consent with a person who answers as the test says. */
function setUp(answer?: ConsentAnswer, store = fakeMemento()) {
  const person = {
    answer,
    confirmsAlways: false,
    always: false,
    asked: [] as string[],
    clock: 0,
  };
  const consent = new Consent({
    store,
    dialogs: {
      ask: async ({ label }) => {
        person.asked.push(label);
        return person.answer;
      },
      confirmAlways: async () => {
        person.asked.push('always?');
        return person.confirmsAlways;
      },
    },
    always: () => person.always,
    now: () => person.clock,
  });
  return { person, consent, store };
}

describe('Consent', () => {
  it('asks once, and keeps Allow for the next window', async () => {
    const { consent, person, store } = setUp('allow');
    await consent.require(BUILD1);
    await consent.require(BUILD1);
    expect(person.asked).toEqual(['SSH: build1']);
    const next = setUp(undefined, store);
    await next.consent.require(BUILD1);
    expect(next.person.asked).toEqual([]);
  });

  it('asks for each remote on its own', async () => {
    const { consent, person } = setUp('allow');
    await consent.require(BUILD1);
    person.answer = 'never';
    await expect(consent.require(BUILD2)).rejects.toThrow(DENIED);
    await consent.require(BUILD1);
  });

  it('keeps Only now for this window alone', async () => {
    const { consent, store, person } = setUp('only-now');
    await consent.require(BUILD1);
    await consent.require(BUILD1);
    expect(person.asked).toHaveLength(1);
    expect(consent.decisions()).toEqual([{ ...BUILD1, answer: 'only-now' }]);
    expect(setUp(undefined, store).consent.standingOf(BUILD1)).toBe('ask');
  });

  it('keeps Never, says why, and does not ask again', async () => {
    const { consent, person, store } = setUp('never');
    await expect(consent.require(BUILD1)).rejects.toThrow(/you chose never to allow SSH: build1/);
    await expect(consent.require(BUILD1)).rejects.toThrow(DENIED);
    await expect(setUp('allow', store).consent.require(BUILD1)).rejects.toThrow(DENIED);
    expect(person.asked).toHaveLength(1);
  });

  it('shows one dialog to clients that ask at the same time', async () => {
    const { consent, person } = setUp('allow');
    await Promise.all(Array.from({ length: 20 }, () => consent.require(BUILD1)));
    expect(person.asked).toHaveLength(1);
  });

  it('refuses when the dialog is closed, and leaves the person in peace for a while', async () => {
    const { consent, person } = setUp(undefined);
    await expect(consent.require(BUILD1)).rejects.toThrow(/you have not allowed/);
    person.answer = 'allow';
    person.clock = 9_999;
    await expect(consent.require(BUILD1)).rejects.toThrow(DENIED);
    expect(person.asked).toHaveLength(1);
    person.clock = 10_000;
    await consent.require(BUILD1);
    expect(person.asked).toHaveLength(2);
  });

  it('can be changed and forgotten', async () => {
    const { consent, person } = setUp('allow');
    await consent.require(BUILD1);
    await consent.decide(BUILD1, 'never');
    expect(() => consent.assertAllowed(BUILD1)).toThrow(DENIED);
    await consent.decide(BUILD1, 'only-now');
    expect(() => consent.assertAllowed(BUILD1)).not.toThrow();
    await consent.forget(BUILD1.authority);
    expect(consent.decisions()).toEqual([]);
    expect(() => consent.assertAllowed(BUILD1)).toThrow(DENIED);
    await consent.require(BUILD1);
    expect(person.asked).toHaveLength(2);
  });

  it('takes `always` only after it was confirmed here', async () => {
    const { consent, person } = setUp('allow');
    person.always = true;
    await consent.require(BUILD1);
    expect(person.asked).toEqual(['always?', 'SSH: build1']);
    person.confirmsAlways = true;
    await consent.require(BUILD2);
    await consent.require({ authority: 'wsl', label: 'WSL' });
    expect(person.asked).toEqual(['always?', 'SSH: build1', 'always?']);
  });

  it('wants a new confirmation when `always` was taken back in between', async () => {
    const { consent, person } = setUp();
    person.always = true;
    person.confirmsAlways = true;
    await consent.require(BUILD1);
    person.always = false;
    expect(() => consent.assertAllowed(BUILD1)).toThrow(DENIED);
    await expect(consent.require(BUILD1)).rejects.toThrow(DENIED);
    person.always = true;
    expect(() => consent.assertAllowed(BUILD1)).toThrow(DENIED);
  });

  it('lets Never win over `always`', async () => {
    const { consent, person } = setUp('never');
    await expect(consent.require(BUILD1)).rejects.toThrow(DENIED);
    person.always = true;
    person.confirmsAlways = true;
    await consent.require(BUILD2);
    await expect(consent.require(BUILD1)).rejects.toThrow(DENIED);
  });

  it.each(['__proto__', 'constructor', 'toString'])(
    'has no answer for a remote called %s',
    async (authority) => {
      const { consent } = setUp('allow');
      const remote = { authority, label: authority };
      expect(consent.standingOf(remote)).toBe('ask');
      await consent.require(remote);
    },
  );
});
