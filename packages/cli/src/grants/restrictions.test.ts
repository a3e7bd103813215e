import { describe, expect, it } from 'vitest';
import type { BridgeOptions } from '../bridge-options.ts';
import {
  changedGrant,
  type Grant,
  type GrantChanger,
  heldFor,
  heldWithin,
  isRestrictions,
  NO_RESTRICTIONS,
  narrowing,
  type Restrictions,
  restoredGrant,
  restrictionWords,
  stricter,
  userWord,
  withoutExtensions,
} from './restrictions.ts';

const everyone: GrantChanger = { users: ['0'], by: 'everyone' };
const dev: GrantChanger = { users: ['1000'], by: 'user' };
const rule: GrantChanger = { users: ['0'], by: 'rule' };

/** A grant after these changes. */
function after(...changes: [GrantChanger, Restrictions][]): Grant {
  return changes.reduce((grant, [who, named]) => changedGrant(grant, who, named), NO_RESTRICTIONS);
}

const END = '2026-01-31T12:00:00.000Z';

describe('what is held for a user of a target', () => {
  it('is what a person gave, for every user', () => {
    const grant = after([everyone, { gpgKeys: ['a'], confirm: true }], [everyone, { decrypt: false }]);
    for (const user of ['0', '1000'])
      expect(heldFor(grant, [user])).toEqual({ gpgKeys: ['a'], confirm: true, decrypt: false });
  });

  it('is for one user what was given to that one', () => {
    const grant = after([everyone, { gpgKeys: ['a'], confirm: true }], [dev, { gpgKeys: ['b'] }]);
    expect(heldFor(grant, ['1000'])).toEqual({ gpgKeys: ['b'], confirm: true });
    expect(heldFor(grant, ['0'])).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(heldFor(changedGrant(grant, dev, { gpgKeys: [] }), ['1000'])).toEqual({ confirm: true });
  });

  it('ends when it is changed by name, whoever it was given for', () => {
    const root: GrantChanger = { users: ['0'], by: 'user' };
    const grant = after([everyone, { gpgKeys: ['a'] }], [root, { gpgKeys: ['b'] }]);
    expect(heldFor(changedGrant(grant, everyone, { gpgKeys: ['c'] }), ['0'])).toEqual({ gpgKeys: ['c'] });
    expect(
      after([everyone, { gpgKeys: ['a'], for: '1h', until: END }], [everyone, { gpgKeys: [], for: 'none' }]),
    ).toEqual(NO_RESTRICTIONS);
  });

  it("is a rule's as far as no person said otherwise, and that of its last word alone", () => {
    const grant = after([everyone, { gpgKeys: ['a'] }], [rule, { gpgKeys: ['b'], confirm: true }]);
    expect(heldFor(grant, ['0'])).toEqual({ gpgKeys: ['a'], confirm: true });
    expect(heldFor(changedGrant(grant, rule, { notify: true }), ['0'])).toEqual({
      gpgKeys: ['a'],
      notify: true,
    });
    expect(heldFor(changedGrant(grant, everyone, { confirm: false }), ['0'])).toEqual({ gpgKeys: ['a'] });
    // A person's end of time holds against the rule's.
    const ended = after(
      [everyone, { for: '1h', until: END }],
      [rule, { for: '2h', until: '2030-01-01T00:00:00Z' }],
    );
    expect(heldFor(ended, ['0']).until).toBe(END);
  });

  it('is what a person gave one user also against a rule, which holds for the others as before', () => {
    const bob: GrantChanger = { users: ['bob', '1001'], by: 'user' };
    const grant = after([rule, { gpgKeys: ['one'], decrypt: false }], [bob, { gpgKeys: ['two'] }]);
    expect(heldFor(grant, ['bob', '1001'])).toEqual({ gpgKeys: ['two'], decrypt: false });
    expect(heldFor(grant, ['0'])).toEqual({ gpgKeys: ['one'], decrypt: false });
    const lifted = changedGrant(grant, bob, { gpgKeys: [], decrypt: true });
    expect(heldFor(lifted, ['bob', '1001'])).toEqual({});
    expect(heldFor(lifted, ['0'])).toEqual({ gpgKeys: ['one'], decrypt: false });
  });

  it("is a rule's for one user apart from those for others", () => {
    const of = (...users: string[]): GrantChanger => ({ users, by: 'ruleUser' });
    const grant = after(
      [rule, { decrypt: false }],
      [of('dev', '1000'), { gpgKeys: ['one'] }],
      [of('bob', '1001'), { gpgKeys: ['two'] }],
    );
    expect(heldFor(grant, ['dev', '1000'])).toEqual({ gpgKeys: ['one'], decrypt: false });
    expect(heldFor(grant, ['bob', '1001'])).toEqual({ gpgKeys: ['two'], decrypt: false });
    expect(heldFor(grant, ['0'])).toEqual({ decrypt: false });
  });

  it('holds for a user who gets another number in the target, and for another name of that number', () => {
    const grant = after([{ users: ['dev', '1000'], by: 'user' }, { gpgKeys: ['a'] }]);
    for (const users of [['dev', '1000'], ['dev', '2000'], ['ann', '1000'], ['1000']])
      expect(heldFor(grant, users)).toEqual({ gpgKeys: ['a'] });
    expect(heldFor(grant, ['ann', '2000'])).toEqual({});
    // Nobody gets what somebody else was given by taking that one's number.
    const wider = after(
      [everyone, { gpgKeys: ['a'] }],
      [{ users: ['bob', '1001'], by: 'user' }, { gpgKeys: [] }],
    );
    expect(heldFor(wider, ['bob', '1001'])).toEqual({});
    expect(heldFor(wider, ['dev', '1001'])).toEqual({ gpgKeys: ['a'] });
  });

  it('is the stricter of what several grants say', () => {
    const grants = [after([everyone, { gpgKeys: ['a'] }]), after([everyone, { decrypt: false }])];
    expect(heldFor(grants, ['0'])).toEqual({ gpgKeys: ['a'], decrypt: false });
    expect(heldFor([], ['0'])).toEqual({});
  });

  it('says nothing about the keys of an agent that is left out, until that is back', () => {
    const grant = after([everyone, { gpgKeys: ['a'], decrypt: false }], [everyone, { gpg: false }]);
    // An ssh-agent that is gpg-agent has the same keys.
    expect(heldFor(grant, ['0'])).toEqual({ gpg: false, gpgKeys: ['a'] });
    expect(heldFor(changedGrant(grant, everyone, { gpg: true }), ['0'])).toEqual({
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

it.each<[Restrictions, Restrictions, Restrictions]>([
  [{}, {}, {}],
  [
    { gpgKeys: ['a'], confirm: true },
    { decrypt: false, notify: false },
    { gpgKeys: ['a'], confirm: true, decrypt: false },
  ],
  [{ gpgKeys: ['a', 'b'] }, { gpgKeys: ['b', 'c'] }, { gpgKeys: ['b'] }],
  [{ gpgKeys: ['a'], decrypt: false }, { gpgKeys: ['b'] }, { gpg: false, gpgKeys: ['0'.repeat(40)] }],
  [{ gpg: false }, { gpgKeys: ['b'], ssh: false }, { gpg: false, gpgKeys: ['b'], ssh: false }],
  [{ sshKeys: ['a'] }, { sshKeys: ['b'] }, { ssh: false }],
  [
    { for: '2h', until: '2026-01-31T13:00:00.000Z' },
    { for: '1h', until: END },
    { for: '1h', until: END },
  ],
  [{ for: 'none' }, { for: '1h', until: END }, { for: '1h', until: END }],
  [{ idle: '1h' }, { idle: '30m' }, { idle: '30m' }],
  [{ idle: 'none' }, { idle: '30m' }, { idle: '30m' }],
])('%j and %j together are %j', (one, other, expected) => {
  expect(stricter(one, other)).toEqual(expected);
  expect(stricter(other, one)).toEqual(expected);
});

it.each<[Restrictions, BridgeOptions, Restrictions]>([
  [{ gpgKeys: ['a'] }, {}, { gpgKeys: ['a'] }],
  [{ gpgKeys: ['a', 'b'] }, { gpgKeys: ['a'] }, { gpgKeys: ['a'] }],
  [{ gpgKeys: ['a'], confirm: true }, { gpgKeys: ['b'] }, { gpgKeys: ['a'], confirm: true }],
  [{}, { gpgKeys: ['b'] }, {}],
])('%j for a bridge with %j is %j', (held, running, expected) => {
  expect(heldWithin(held, running)).toEqual(expected);
});

it.each([
  ['dev:staff', 'dev'],
  ['root', '0'],
  ['', '0'],
  ['0100', '100'],
])('the user %j is %j', (said, expected) => {
  expect(userWord(said)).toBe(expected);
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
