import { describe, expect, it } from 'vitest';
import type { BridgeOptions } from '../bridge-options.ts';
import {
  changedGrant,
  type Grant,
  type GrantChanger,
  heldFor,
  isRestrictions,
  NO_RESTRICTIONS,
  narrowing,
  type Restrictions,
  restoredGrant,
  restrictionWords,
  withoutExtensions,
} from './restrictions.ts';

const everyone: GrantChanger = { user: '0', by: 'everyone' };
const dev: GrantChanger = { user: '1000', by: 'user' };
const rule: GrantChanger = { user: '0', by: 'rule' };

/** A grant after these changes. */
function after(...changes: [GrantChanger, Restrictions][]): Grant {
  return changes.reduce((grant, [who, named]) => changedGrant(grant, who, named), NO_RESTRICTIONS);
}

const END = '2026-01-31T12:00:00.000Z';

describe('what is held for a user of a target', () => {
  it('is what a person gave, for every user', () => {
    const grant = after([everyone, { gpgKeys: ['a'], confirm: true }], [everyone, { decrypt: false }]);
    for (const user of ['0', '1000'])
      expect(heldFor(grant, user)).toEqual({ gpgKeys: ['a'], confirm: true, decrypt: false });
  });

  it('is for one user what was given to that one', () => {
    const grant = after([everyone, { gpgKeys: ['a'], confirm: true }], [dev, { gpgKeys: ['b'] }]);
    expect(heldFor(grant, '1000')).toEqual({ gpgKeys: ['b'], confirm: true });
    expect(heldFor(grant, '0')).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(heldFor(changedGrant(grant, dev, { gpgKeys: [] }), '1000')).toEqual({ confirm: true });
  });

  it('ends when it is changed by name, whoever it was given for', () => {
    const root: GrantChanger = { user: '0', by: 'user' };
    const grant = after([everyone, { gpgKeys: ['a'] }], [root, { gpgKeys: ['b'] }]);
    expect(heldFor(changedGrant(grant, everyone, { gpgKeys: ['c'] }), '0')).toEqual({ gpgKeys: ['c'] });
    expect(
      after([everyone, { gpgKeys: ['a'], for: '1h', until: END }], [everyone, { gpgKeys: [], for: 'none' }]),
    ).toEqual(NO_RESTRICTIONS);
  });

  it("is a rule's as far as no person said otherwise, and that of its last word alone", () => {
    const grant = after([everyone, { gpgKeys: ['a'] }], [rule, { gpgKeys: ['b'], confirm: true }]);
    expect(heldFor(grant, '0')).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(heldFor(changedGrant(grant, rule, { notify: true }), '0')).toEqual({
      gpgKeys: ['a'],
      notify: true,
    });
    expect(heldFor(changedGrant(grant, everyone, { confirm: false }), '0')).toEqual({ gpgKeys: ['a'] });
    // A person's end of time holds against the rule's.
    const ended = after(
      [everyone, { for: '1h', until: END }],
      [rule, { for: '2h', until: '2030-01-01T00:00:00Z' }],
    );
    expect(heldFor(ended, '0').until).toBe(END);
  });

  it('says nothing about the keys of an agent that is left out, until that is back', () => {
    const grant = after([everyone, { gpgKeys: ['a'], decrypt: false }], [everyone, { gpg: false }]);
    expect(heldFor(grant, '0')).toEqual({ gpg: false });
    expect(heldFor(changedGrant(grant, everyone, { gpg: true }), '0')).toEqual({
      gpgKeys: ['a'],
      decrypt: false,
    });
  });

  it('is as it was before when a change is taken back, with what others changed meanwhile', () => {
    const before = after([everyone, { gpgKeys: ['a'] }]);
    const changed = changedGrant(changedGrant(before, everyone, { gpgKeys: ['b'] }), dev, { confirm: true });
    expect(restoredGrant(changed, before, everyone, { gpgKeys: ['b'] })).toEqual(
      changedGrant(before, dev, { confirm: true }),
    );
  });
});

it.each<[BridgeOptions, BridgeOptions, BridgeOptions]>([
  [{}, {}, {}],
  [{}, { gpgKeys: ['a'], keys: 'all', confirm: true }, { gpgKeys: ['a'], confirm: true }],
  [{ gpgKeys: ['a', 'b'] }, { gpgKeys: ['b', 'a'] }, {}],
  [{ gpgKeys: ['a'] }, { gpgKeys: ['b'] }, { gpgKeys: ['b'] }],
  [{ gpgKeys: ['a'], confirm: true, decrypt: false }, { gpgKeys: [], confirm: false }, {}],
  [{ allowPassphrase: true }, { ssh: false }, { ssh: false, allowPassphrase: false }],
  [{}, { for: '1h', until: END }, { for: '1h', until: END }],
  [{ for: '1h', until: '2026-01-31T11:00:00.000Z' }, { for: '1h', until: END }, {}],
  [
    { for: '2h', until: '2026-01-31T13:00:00.000Z' },
    { for: '1h', until: END },
    { for: '1h', until: END },
  ],
  [{ idle: '30m' }, { idle: '1h' }, {}],
  [{ idle: '1h' }, { idle: '30m' }, { idle: '30m' }],
])('from %j to %j only %j takes something away', (before, wanted, expected) => {
  expect(narrowing(before, wanted)).toEqual(expected);
});

it.each<[unknown, boolean]>([
  [{}, true],
  [{ gpgKeys: ['a'], ssh: false, idle: '30m', confirm: true }, true],
  [{ for: '1h', until: END }, true],
  [{ for: 'none' }, true],
  [{ for: '1h' }, false],
  [{ until: END }, false],
  [{ for: '1h', until: 'soon' }, false],
  [{ for: 'long', until: END }, false],
  [{ confrim: true }, false],
  [{ confirm: 'yes' }, false],
  [{ gpgKeys: 'a' }, false],
  [{ gpgKeys: [''] }, false],
  [{ allowPassphrase: true }, false],
  [{ takeover: true }, false],
  [[], false],
  [null, false],
])('%j is a set of restrictions: %j', (value, expected) => {
  expect(isRestrictions(value)).toBe(expected);
});

it('restrictions have the words by which they are given', () => {
  expect(
    restrictionWords({ gpg: false, gpgKeys: ['a'], decrypt: true, sshKeys: [], for: '1h', keys: 'all' }),
  ).toEqual(['--no-gpg', '--gpg-key', '--for']);
});

it('extensions are not for a container that was made again', () => {
  expect(withoutExtensions({ allowPassphrase: true, takeover: true, confirm: true })).toEqual({
    confirm: true,
  });
});
