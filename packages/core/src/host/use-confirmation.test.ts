import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { describe, expect, it, onTestFinished } from 'vitest';
import { UseConfirmation, type UseConfirmationOptions } from './use-confirmation.ts';

const use = { time: 0, session: 1, command: 'PKSIGN', key: 'A'.repeat(40) };

async function confirmation(options: Partial<UseConfirmationOptions> = {}) {
  const pinentry = await ScriptedPinentry.create('');
  onTestFinished(() => pinentry.remove());
  const home = await GnupgHome.create(pinentry.agentConf);
  onTestFinished(() => home.remove());
  const clock = { now: 0 };
  const made = new UseConfirmation({
    target: () => 'box',
    nameOf: async () => 'Ada',
    log: () => {},
    env: home.env,
    now: () => clock.now,
    ...options,
  });
  const ask = (of = use) => made.confirm(of, new AbortController().signal);
  return { pinentry, ask, clock };
}

describe('a question about a use', () => {
  it('fits into a line whatever the names are, and has nothing in it that pinentry would obey', async () => {
    const { pinentry, ask } = await confirmation({
      target: () => `100%\nSETDESC fake\u202e ${'\u{1f511}'.repeat(900)}`,
      nameOf: async () => 'ü'.repeat(2_000),
    });
    expect(await ask()).toBe(true);
    const [question] = await pinentry.questions();
    expect(question).toMatch(/^100%25 SETDESC fake .*… wants to sign with your GPG key\.%0Aü+…%0AA{40}$/u);
    expect(Buffer.byteLength(question!)).toBeLessThan(990);
  });

  it('is asked again after ten minutes', async () => {
    const { pinentry, ask, clock } = await confirmation();
    await pinentry.confirms('other');
    expect(await ask()).toBe(true);
    await pinentry.confirms('cancel');
    clock.now = 10 * 60_000 - 1;
    expect(await ask()).toBe(true);
    expect(await ask({ ...use, key: 'B'.repeat(40) })).toBe(false);
    clock.now += 1;
    expect(await ask()).toBe(false);
    expect(await pinentry.questions()).toHaveLength(3);
  });
});
