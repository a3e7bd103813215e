import { describe, expect, it } from 'vitest';
import { type Situation, type Truth, viewOf } from './status.ts';

const ALLOWED: Truth = { permission: 'allowed', sessions: 0, waiting: [], operations: [] };
const READY: Situation = { wanted: true, role: { is: 'owner' }, own: ALLOWED };
const SHARING: Situation['role'] = {
  is: 'sharing',
  owner: { version: '0.1.0', pid: 7, window: 'docs' },
};
const WAITING = [{ sessionId: 's', purpose: 'a signature' }];
const ERROR: Truth['error'] = {
  code: 'GPGCONF_MISSING',
  message: "can't find gpgconf: no such file. Install it.",
  side: 'remote',
};

describe('viewOf', () => {
  it.each<[string, Partial<Situation>, Partial<Truth>, string, string]>([
    ['idle', {}, {}, '$(key) GPG: ready', 'can be used here'],
    ['idle', {}, { until: 1 }, '$(key) GPG: ready', 'can be used here until'],
    ['busy', {}, { sessions: 1 }, '$(sync~spin) GPG: busy', 'A program here'],
    ['busy', {}, { sessions: 3 }, '$(sync~spin) GPG: busy', '3 programs'],
    ['busy', {}, { preparing: true }, '$(sync~spin) GPG: busy', 'Copying'],
    ['busy', { role: { is: 'out' } }, { permission: 'undecided' }, '$(sync~spin) GPG: busy', 'Starting'],
    ['waiting', {}, { sessions: 1, waiting: WAITING }, '$(bell-dot) GPG: waiting for you', 'PIN, passphrase'],
    ['shared', { role: SHARING }, {}, '$(link) GPG: shared', 'can be used here. The window "docs" holds'],
    ['allow', {}, { permission: 'undecided' }, '$(shield) GPG: Allow…', 'not allowed this remote'],
    [
      'allow',
      { role: { is: 'out' }, heldBack: true },
      { permission: 'undecided' },
      '$(shield) GPG: Allow…',
      'not allowed this remote',
    ],
    ['allow', { ownKeys: 'undecided' }, {}, '$(shield) GPG: Allow…', 'private GPG keys of its own'],
    ['forward', { forward: {} }, {}, '$(plug) GPG: forwarded', 'Another forward serves this remote. Signing'],
    [
      'forward',
      { role: { is: 'out' }, forward: { program: 'sshd', pid: 7 } },
      { permission: 'undecided' },
      '$(plug) GPG: forwarded',
      'Another forward serves this remote (sshd, process 7).',
    ],
    [
      'off',
      { forward: {} },
      { permission: 'stopped' },
      '$(circle-slash) GPG: off',
      'stopped on your computer',
    ],
    ['off', { wanted: false }, {}, '$(circle-slash) GPG: off', 'not used here'],
    ['off', { ownKeys: 'keep' }, {}, '$(circle-slash) GPG: off', 'keep using the private keys'],
    ['off', {}, { permission: 'refused' }, '$(circle-slash) GPG: off', 'never to allow'],
    ['off', {}, { permission: 'stopped' }, '$(circle-slash) GPG: off', 'stopped on your computer'],
    ['off', {}, { permission: 'off' }, '$(circle-slash) GPG: off', 'stopped GPG Bridge for this remote'],
    ['paused', {}, { permission: 'paused', until: 1 }, '$(debug-pause) GPG: paused', 'until'],
    ['error', {}, { error: ERROR }, '$(error) GPG: error', "can't find gpgconf: no such file. Install it."],
    ['error', { role: { is: 'cut-off' } }, {}, '$(error) GPG: error', 'does not answer'],
  ])('shows %s for %j, %j', (kind, change, truth, text, detail) => {
    const view = viewOf({ ...READY, ...change, own: { ...ALLOWED, ...truth } });
    expect(view).toMatchObject({ kind, text });
    expect(view.tooltip).toContain(detail);
    // A screen reader hears the state and what it means, and no icon.
    expect(view.accessibleName).toContain(detail);
    expect(view.accessibleName).toMatch(/^GPG Bridge: /);
    expect(view.accessibleName).not.toContain('$(');
  });

  it.each<[string, Partial<Truth>]>([
    ['waiting', { waiting: WAITING }],
    ['busy', { sessions: 1 }],
    ['allow', { permission: 'undecided' }],
    ['off', { permission: 'stopped' }],
    ['error', { error: ERROR }],
    ['shared', {}],
  ])('shows %s where the window that holds the socket says so', (kind, truth) => {
    const view = viewOf({
      wanted: true,
      role: SHARING,
      own: { ...ALLOWED, permission: 'refused' },
      shared: { ...ALLOWED, ...truth },
    });
    expect(view.kind).toBe(kind);
  });

  it('has a colour for what a person has to act on', () => {
    const background = (truth: Partial<Truth>) =>
      viewOf({ ...READY, own: { ...ALLOWED, ...truth } }).background;
    expect(background({ waiting: WAITING })).toBe('statusBarItem.warningBackground');
    expect(background({ permission: 'undecided' })).toBe('statusBarItem.warningBackground');
    expect(background({ error: ERROR })).toBe('statusBarItem.errorBackground');
    expect(background({})).toBeUndefined();
  });
});
