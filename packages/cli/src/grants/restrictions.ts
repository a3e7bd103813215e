import { spanSeconds } from '@gpg-bridge/core/text/time-span';
import { type BridgeOptions, mergedOptions, withoutMoot } from '../bridge-options.ts';

/** Options that can only take something away from a target: they are stored, and outlive its bridge. */
export type Restrictions = Pick<
  BridgeOptions,
  'gpg' | 'ssh' | 'gpgKeys' | 'sshKeys' | 'decrypt' | 'confirm' | 'notify' | 'for' | 'until' | 'idle'
>;

/** What of a bridge is taken away at once: restrictions, and extensions that end. */
export type Narrowing = Restrictions & Pick<BridgeOptions, 'allowPassphrase'>;

type RestrictionName = Exclude<keyof Restrictions, 'until'>;

/** What each restriction looks like in a file, and whether a value takes something away; others lift it. */
interface RestrictionKind {
  isValid(value: unknown): boolean;
  restricts(value: unknown): boolean;
}

const isBoolean = (value: unknown) => typeof value === 'boolean';
const KEYS: RestrictionKind = {
  isValid: (value) => Array.isArray(value) && value.every((key) => typeof key === 'string' && key !== ''),
  restricts: (value) => (value as string[]).length > 0,
};
const TIME: RestrictionKind = {
  isValid: (value) => value === 'none' || (typeof value === 'string' && spanSeconds(value) !== undefined),
  restricts: (value) => value !== 'none',
};
const UNLESS_FALSE: RestrictionKind = { isValid: isBoolean, restricts: (value) => value === false };
const IF_TRUE: RestrictionKind = { isValid: isBoolean, restricts: (value) => value === true };

const KINDS: Readonly<Record<RestrictionName, RestrictionKind>> = {
  gpg: UNLESS_FALSE,
  ssh: UNLESS_FALSE,
  gpgKeys: KEYS,
  sshKeys: KEYS,
  decrypt: UNLESS_FALSE,
  confirm: IF_TRUE,
  notify: IF_TRUE,
  for: TIME,
  idle: TIME,
};

const NAMES = Object.keys(KINDS) as RestrictionName[];

/** The words by which a person gives each of them. */
const OPTION_WORDS: Readonly<Record<RestrictionName, string>> = {
  gpg: '--no-gpg',
  ssh: '--no-ssh',
  gpgKeys: '--gpg-key',
  sshKeys: '--ssh-key',
  decrypt: '--no-decrypt',
  confirm: '--confirm',
  notify: '--notify',
  for: '--for',
  idle: '--idle',
};

/** The restrictions among options that were named, also those that lift one. */
export function namedRestrictions(options: BridgeOptions): Restrictions {
  return only(options, NAMES);
}

/** Whether options name a restriction, to set or to lift it. */
export function namesRestriction(options: BridgeOptions): boolean {
  return NAMES.some((name) => options[name] !== undefined);
}

/** The restrictions that take something away, in a person's words. */
export function restrictionWords(options: BridgeOptions): string[] {
  return NAMES.filter((name) => restricts(options, name)).map((name) => OPTION_WORDS[name]);
}

/** What of `after` takes something away that a bridge with `before` allows; another choice of keys counts. */
export function narrowing(before: BridgeOptions, after: BridgeOptions): Narrowing {
  const narrower = NAMES.filter((name) => restricts(after, name) && isNarrower(name, before, after));
  return {
    ...only(after, narrower),
    ...(before.allowPassphrase && !after.allowPassphrase ? { allowPassphrase: false } : {}),
  };
}

/** Whether options have any entry. */
export function isEmpty(options: object): boolean {
  return Object.keys(options).length === 0;
}

/** Whether a value from a file is a set of restrictions, and nothing else. */
export function isRestrictions(value: unknown): value is Restrictions {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { until, ...rest } = value as Record<string, unknown>;
  const hasEnd = rest.for !== undefined && rest.for !== 'none';
  return (
    Object.entries(rest).every(
      ([name, each]) => Object.hasOwn(KINDS, name) && KINDS[name as RestrictionName].isValid(each),
    ) && (hasEnd ? typeof until === 'string' && !Number.isNaN(Date.parse(until)) : until === undefined)
  );
}

/** What a target's users may not do, by who said so. Users are listed by every word that stands for them. */
export interface Grant {
  /** By the rule of `auto` that brought the bridge up last. */
  rule: Restrictions;
  /** By rules that name a user, for that one. */
  ruleUsers: Readonly<Record<string, Restrictions>>;
  /** By a person, for every user. */
  everyone: Restrictions;
  /** By a person, for one user: what that one has instead. */
  users: Readonly<Record<string, Restrictions>>;
}

/** Who changes a grant, for the bridge of which user. */
export interface GrantChanger {
  /** The user of the bridge at hand, by the word that a person has for it and by the number that it has in the target. */
  users: readonly string[];
  by: 'rule' | 'ruleUser' | 'everyone' | 'user';
}

export const NO_RESTRICTIONS: Grant = { rule: {}, ruleUsers: {}, everyone: {}, users: {} };

/**
 * The restrictions that hold for a user. A person's choice holds against a rule's, and a user's own against everyone's.
 * The target decides which number a name has, and a configuration or an environment which place: of what is stored for
 * several words and places the stricter holds.
 */
export function heldFor(grants: Grant | readonly Grant[], users: readonly string[]): Restrictions {
  const each = [grants].flat().flatMap((grant) => users.map((user) => heldByWord(grant, user)));
  const held = each.length === 0 ? {} : each.reduce(stricter);
  return withoutMoot(held, held);
}

function heldByWord({ rule, ruleUsers, everyone, users }: Grant, user: string): Restrictions {
  const merged = [rule, entryOf(ruleUsers, user), everyone, entryOf(users, user)].reduce<Restrictions>(
    (below, above) => mergedOptions(below, above),
    {},
  );
  const held = restricting(merged);
  return withoutMoot(held, held);
}

/** A keygrip that no key has: what is chosen over SSH, too, where choices have none in common. */
const NO_KEY = '0'.repeat(40);

/** What a bridge that runs was told before, without what left no key if keys are named now. */
export function beforeNamed(running: BridgeOptions, now: BridgeOptions): BridgeOptions {
  const { gpg: _gpg, gpgKeys = [], ...rest } = running;
  const isNamed = now.gpg !== false && now.gpgKeys !== undefined;
  return isNamed && gpgKeys.includes(NO_KEY) ? rest : running;
}

/** What two sets of restrictions take away together. Two choices of keys that have none in common leave no key. */
export function stricter(one: Restrictions, other: Restrictions): Restrictions {
  const [a, b] = [restricting(one), restricting(other)];
  const both = only(
    { ...a, ...b },
    NAMES.filter((name) => name !== 'for' && name !== 'idle' && name !== 'gpgKeys' && name !== 'sshKeys'),
  );
  const gpgKeys = commonKeys(a.gpgKeys, b.gpgKeys);
  const sshKeys = commonKeys(a.sshKeys, b.sshKeys);
  const joined: Restrictions = {
    ...both,
    ...(gpgKeys === undefined ? {} : gpgKeys.length === 0 ? { gpg: false, gpgKeys: [NO_KEY] } : { gpgKeys }),
    ...(sshKeys === undefined ? {} : sshKeys.length === 0 ? { ssh: false } : { sshKeys }),
    ...only(
      earlier(a, b, ({ until }) => (until === undefined ? undefined : Date.parse(until))),
      ['for'],
    ),
    ...only(
      earlier(a, b, ({ idle }) => (idle === undefined ? undefined : spanSeconds(idle))),
      ['idle'],
    ),
  };
  return withoutMoot(joined, joined);
}

/**
 * What is stored, as a bridge that runs has to keep to it: of keys that it was given, those that are stored; if there is
 * none, the stored ones.
 */
export function heldWithin(held: Restrictions, running: BridgeOptions): Restrictions {
  const shared = (name: 'gpgKeys' | 'sshKeys') => {
    const common = held[name] && commonKeys(held[name], running[name]?.length ? running[name] : undefined);
    return common?.length ? { [name]: common } : {};
  };
  return { ...held, ...shared('gpgKeys'), ...shared('sshKeys') };
}

function commonKeys(one?: readonly string[], other?: readonly string[]): string[] | undefined {
  if (!one || !other) return (one ?? other) && [...(one ?? other)!];
  return one.filter((key) => other.includes(key));
}

/** The one with the earlier end. */
function earlier(
  one: Restrictions,
  other: Restrictions,
  end: (restrictions: Restrictions) => number | undefined,
): Restrictions {
  const [first, second] = [end(one), end(other)];
  if (first === undefined || second === undefined) return first === undefined ? other : one;
  return first <= second ? one : other;
}

/** A grant in which options were named. What a person names takes the place of what a rule said. */
export function changedGrant(grant: Grant, { users, by }: GrantChanger, named: Restrictions): Grant {
  if (by === 'rule') return { ...grant, rule: restricting(named) };
  if (by === 'ruleUser') {
    return { ...grant, ruleUsers: withEntries(grant.ruleUsers, users, () => restricting(named)) };
  }
  const names = NAMES.filter((name) => named[name] !== undefined);
  if (by === 'user') {
    const own = (before: Restrictions, user: string) =>
      needed({ ...without(before, names), ...named }, [
        grant.rule,
        entryOf(grant.ruleUsers, user),
        grant.everyone,
      ]);
    return { ...grant, users: withEntries(grant.users, users, own) };
  }
  return {
    rule: without(grant.rule, names),
    ruleUsers: withEntries(grant.ruleUsers, users, (before) => without(before, names)),
    everyone: restricting({ ...without(grant.everyone, names), ...named }),
    users: withEntries(grant.users, users, (before) => without(before, names)),
  };
}

/** A grant to which one changer adds restrictions; a rule's others stay. */
export function narrowedGrant(grant: Grant, changer: GrantChanger, narrower: Restrictions): Grant {
  if (isEmpty(narrower)) return grant;
  if (changer.by === 'rule') return { ...grant, rule: { ...grant.rule, ...narrower } };
  if (changer.by !== 'ruleUser') return changedGrant(grant, changer, narrower);
  const { ruleUsers } = grant;
  return {
    ...grant,
    ruleUsers: withEntries(ruleUsers, changer.users, (before) => ({ ...before, ...narrower })),
  };
}

/**
 * A grant in which these options of one changer are as they were in an earlier one, unless somebody else has changed
 * them since.
 */
export function restoredGrant(
  grant: Grant,
  earlier: Grant,
  { users, by }: GrantChanger,
  named: Restrictions,
): Grant {
  if (by === 'rule') return { ...grant, rule: earlier.rule };
  if (by === 'ruleUser') {
    const before = (_now: Restrictions, user: string) => entryOf(earlier.ruleUsers, user);
    return { ...grant, ruleUsers: withEntries(grant.ruleUsers, users, before) };
  }
  const names = NAMES.filter((name) => named[name] !== undefined);
  const restored = (now: Restrictions, then: Restrictions, said: Restrictions) => {
    const ours = names.filter((name) => isSame(name, now, said));
    return { ...without(now, ours), ...only(then, ours) };
  };
  const own = (said: Restrictions) => (now: Restrictions, user: string) =>
    restored(now, entryOf(earlier.users, user), said);
  if (by === 'user') return { ...grant, users: withEntries(grant.users, users, own(named)) };
  return {
    rule: restored(grant.rule, earlier.rule, {}),
    ruleUsers: withEntries(grant.ruleUsers, users, (now, user) =>
      restored(now, entryOf(earlier.ruleUsers, user), {}),
    ),
    everyone: restored(grant.everyone, earlier.everyone, named),
    users: withEntries(grant.users, users, own({})),
  };
}

/** A grant without what was stored for one user alone. */
export function withoutUser(grant: Grant, users: readonly string[]): Grant {
  const none = () => ({});
  return {
    ...grant,
    ruleUsers: withEntries(grant.ruleUsers, users, none),
    users: withEntries(grant.users, users, none),
  };
}

/** Whether a grant has anything for one user alone. */
export function hasUser({ users, ruleUsers }: Grant, words: readonly string[]): boolean {
  return words.some((word) => Object.hasOwn(users, word) || Object.hasOwn(ruleUsers, word));
}

/** A user's name in one way: without a group, and the one that every system has by its number. */
export function userWord(said: string): string {
  const [user = ''] = said.split(':');
  if (user === '' || user === 'root') return '0';
  return /^\d+$/.test(user) ? String(BigInt(user)) : user;
}

function entryOf(users: Readonly<Record<string, Restrictions>>, user: string): Restrictions {
  return Object.hasOwn(users, user) ? users[user]! : {};
}

/** Entries of which these users have others; one without any restriction is left out. */
function withEntries(
  entries: Readonly<Record<string, Restrictions>>,
  users: readonly string[],
  entry: (before: Restrictions, user: string) => Restrictions,
): Readonly<Record<string, Restrictions>> {
  const others = Object.entries(entries).filter(([user]) => !users.includes(user));
  const own = users.map((user) => [user, entry(entryOf(entries, user), user)] as const);
  return Object.fromEntries([...others, ...own.filter(([, each]) => !isEmpty(each))]);
}

/** Options without what a container made again under the same name does not inherit. */
export function withoutExtensions(options: BridgeOptions): BridgeOptions {
  const { allowPassphrase: _passphrase, takeover: _takeover, ...rest } = options;
  return rest;
}

function restricts(options: BridgeOptions, name: RestrictionName): boolean {
  return options[name] !== undefined && KINDS[name].restricts(options[name]);
}

function restricting(options: Restrictions): Restrictions {
  return only(
    options,
    NAMES.filter((name) => restricts(options, name)),
  );
}

/** Of a user's own choices those that restrict, and those that lift what holds otherwise. */
function needed(own: Restrictions, below: readonly Restrictions[]): Restrictions {
  return only(
    own,
    NAMES.filter((name) => restricts(own, name) || below.some((each) => restricts(each, name))),
  );
}

function isNarrower(name: RestrictionName, before: BridgeOptions, after: BridgeOptions): boolean {
  if (!restricts(before, name)) return true;
  if (name === 'for') return after.until !== undefined && !(before.until! <= after.until);
  if (name === 'idle') return spanSeconds(after.idle!)! < spanSeconds(before.idle!)!;
  return !isSame(name, before, after);
}

/** Whether two say the same with one option. What only lifts counts as said by nobody. */
function isSame(name: RestrictionName, one: BridgeOptions, other: BridgeOptions): boolean {
  if (!restricts(one, name) || !restricts(other, name))
    return restricts(one, name) === restricts(other, name);
  if (name === 'for') return one.until === other.until;
  return (
    [one[name]].flat().map(String).sort().join('\0') === [other[name]].flat().map(String).sort().join('\0')
  );
}

/** These options alone; the end of --for goes with it. */
function only(options: BridgeOptions, names: readonly RestrictionName[]): Restrictions {
  const kept = names.filter((name) => options[name] !== undefined);
  const { until } = options;
  return {
    ...Object.fromEntries(kept.map((name) => [name, options[name]])),
    ...(kept.includes('for') && options.for !== 'none' && until !== undefined ? { until } : {}),
  };
}

function without(options: Restrictions, names: readonly RestrictionName[]): Restrictions {
  return only(
    options,
    NAMES.filter((name) => !names.includes(name)),
  );
}
