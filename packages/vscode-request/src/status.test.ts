import { BridgeError } from '@gpg-bridge/core/errors';
import { describe, expect, it } from 'vitest';
import { type Situation, viewOf } from './status.ts';

const READY: Situation = {
  wanted: true,
  role: { is: 'owner' },
  sessions: 0,
  waiting: 0,
  permission: 'allowed',
};
const OTHER = { version: '0.1.0', pid: 7, window: 'docs' };
const ERROR = new BridgeError('GPGCONF_MISSING', {
  what: "can't find gpgconf",
  why: 'no such file',
  fix: 'Install it.',
});

describe('viewOf', () => {
  it.each<[string, Partial<Situation>, string, string]>([
    ['idle', {}, '$(key) GPG: ready', 'can be used here'],
    ['busy', { sessions: 1 }, '$(sync~spin) GPG: busy', 'A program here'],
    ['busy', { sessions: 3 }, '$(sync~spin) GPG: busy', '3 programs'],
    ['busy', { role: { is: 'out' }, permission: 'undecided' }, '$(sync~spin) GPG: busy', 'Starting'],
    ['waiting', { sessions: 1, waiting: 1 }, '$(bell-dot) GPG: waiting for you', 'PIN, passphrase or touch'],
    [
      'shared',
      { role: { is: 'sharing', owner: OTHER } },
      '$(link) GPG: shared with another window',
      'works here too',
    ],
    ['off', { wanted: false }, '$(circle-slash) GPG: off', 'not used here'],
    ['off', { wanted: false, offReason: 'You chose so.' }, '$(circle-slash) GPG: off', 'You chose so.'],
    ['off', { permission: 'refused' }, '$(circle-slash) GPG: off', 'never to allow'],
    ['off', { permission: 'undecided' }, '$(circle-slash) GPG: off', 'not allowed this remote'],
    ['off', { permission: 'stopped' }, '$(circle-slash) GPG: off', 'stopped on your computer'],
    ['error', { error: ERROR }, '$(error) GPG: error', "can't find gpgconf: no such file. Install it."],
    ['error', { role: { is: 'cut-off' } }, '$(error) GPG: error', 'does not answer'],
  ])('shows %s for %j', (kind, change, text, detail) => {
    const view = viewOf({ ...READY, ...change });
    expect(view).toMatchObject({ kind, text });
    expect(view.tooltip).toContain(detail);
    // A screen reader hears the state and what it means, and no icon.
    expect(view.accessibleName).toContain(detail);
    expect(view.accessibleName).toMatch(/^GPG Bridge: /);
    expect(view.accessibleName).not.toContain('$(');
  });

  it('has a colour for what a person has to act on', () => {
    expect(viewOf({ ...READY, waiting: 1 }).background).toBe('statusBarItem.warningBackground');
    expect(viewOf({ ...READY, error: ERROR }).background).toBe('statusBarItem.errorBackground');
    expect(viewOf(READY).background).toBeUndefined();
  });
});
