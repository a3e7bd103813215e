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

/** What a target's users may not do, by who said so. */
export interface Grant {
  /** By the rule of `auto` that brought the bridge up last. */
  rule: Restrictions;
  /** By a person, for every user. */
  everyone: Restrictions;
  /** By a person, for one user: what that one has instead. */
  users: Readonly<Record<string, Restrictions>>;
}

/** Who changes a grant, for the bridge of which user. */
export interface GrantChanger {
  /** The user of the bridge at hand. */
  user: string;
  by: 'rule' | 'everyone' | 'user';
}

export const NO_RESTRICTIONS: Grant = { rule: {}, everyone: {}, users: {} };

/** The restrictions that hold for a user. A person's choice holds against a rule's, and a user's own against everyone's. */
export function heldFor({ rule, everyone, users }: Grant, user: string): Restrictions {
  const layers = [rule, everyone, Object.hasOwn(users, user) ? users[user]! : {}];
  const merged = layers.reduce<Restrictions>((below, above) => mergedOptions(below, above), {});
  const held = restricting(merged);
  return withoutMoot(held, held);
}

/** A grant in which options were named. What a person names takes the place of what a rule said. */
export function changedGrant(grant: Grant, { user, by }: GrantChanger, named: Restrictions): Grant {
  if (by === 'rule') return { ...grant, rule: restricting(named) };
  const names = NAMES.filter((name) => named[name] !== undefined);
  const rule = without(grant.rule, names);
  const own = without(grant.users[user] ?? {}, names);
  const { [user]: _own, ...others } = grant.users;
  const withOwn = (entry: Restrictions) => (isEmpty(entry) ? others : { ...others, [user]: entry });
  if (by === 'user') return { ...grant, rule, users: withOwn(needed({ ...own, ...named }, grant.everyone)) };
  const everyone = restricting({ ...without(grant.everyone, names), ...named });
  return { rule, everyone, users: withOwn(own) };
}

/** A grant in which these options of one changer are as they were in an earlier one. */
export function restoredGrant(
  grant: Grant,
  earlier: Grant,
  { user, by }: GrantChanger,
  named: Restrictions,
): Grant {
  if (by === 'rule') return { ...grant, rule: earlier.rule };
  const names = NAMES.filter((name) => named[name] !== undefined);
  const restored = (now: Restrictions, then: Restrictions) => ({
    ...without(now, names),
    ...only(then, names),
  });
  const { [user]: own = {}, ...others } = grant.users;
  const ownThen = restored(own, earlier.users[user] ?? {});
  return {
    rule: restored(grant.rule, earlier.rule),
    everyone: restored(grant.everyone, earlier.everyone),
    users: isEmpty(ownThen) ? others : { ...others, [user]: ownThen },
  };
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

/** Of a user's own choices those that restrict, and those that lift what holds for everyone. */
function needed(own: Restrictions, everyone: Restrictions): Restrictions {
  return only(
    own,
    NAMES.filter((name) => restricts(own, name) || restricts(everyone, name)),
  );
}

function isNarrower(name: RestrictionName, before: BridgeOptions, after: BridgeOptions): boolean {
  if (!restricts(before, name)) return true;
  if (name === 'for') return after.until !== undefined && !(before.until! <= after.until);
  if (name === 'idle') return spanSeconds(after.idle!)! < spanSeconds(before.idle!)!;
  return [before[name]].flat().map(String).sort().join() !== [after[name]].flat().map(String).sort().join();
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
