import { BridgeError } from '@gpg-bridge/core/errors';
import {
  type BridgeOptions,
  checkKeyChoice,
  checkOptions,
  mergedOptions,
  withoutMoot,
} from '../bridge-options.ts';
import { isUnknownKey } from '../daemon/narrower.ts';
import { grantUsers, type StoredGrants } from '../daemon/stored-grants.ts';
import {
  changedGrant,
  type Grant,
  type GrantChanger,
  heldFor,
  isEmpty,
  NO_RESTRICTIONS,
  namedRestrictions,
  narrowedGrant,
  narrowing,
  type Restrictions,
  restoredGrant,
  restrictionWords,
} from '../grants/restrictions.ts';
import { operandWords } from '../targets/operand-words.ts';
import type { Target } from '../targets/target.ts';

/** What somebody says about a bridge, with what is stored for its target: what comes of both, and how that is stored. */
export class GrantChange {
  /** Everything that was said, under the restrictions that hold. */
  readonly options: BridgeOptions;
  /** Restrictions that hold and were not said now, in a person's words. */
  readonly inherited: string[];
  readonly #stored: StoredGrants;
  readonly #target: Target;
  readonly #before: readonly (Grant | undefined)[];
  /** Those of them that are there. */
  readonly #stands: readonly Grant[];
  readonly #changer: GrantChanger;
  readonly #named: Restrictions;

  /** Throws for a file that can't be read, and options that exclude what holds. */
  constructor(stored: StoredGrants, target: Target, given: BridgeOptions) {
    this.#stored = stored;
    this.#target = target;
    this.#before = stored.readEach(target);
    this.#stands = this.#before.filter((grant) => grant !== undefined);
    this.#named = namedRestrictions(given);
    const users = grantUsers(target);
    this.#changer = { users, by: changerOf(given) };
    const held = heldFor(this.#after, users);
    // What is named takes the place of choices that leave nothing together.
    if (!this.isOfRule) {
      checkKeyChoice(given, held);
      checkOptions(mergedOptions(held, given), heldFor(this.#stands, users));
    }
    const merged = under(given, held);
    this.options = withoutMoot(merged, merged);
    const named = new Set(restrictionWords(given));
    this.inherited = restrictionWords(this.options).filter((word) => !named.has(word));
  }

  /** Throws if the time that the target was given is over; until more is named no bridge is brought up. */
  checkTime(now = Date.now()): void {
    const { until } = this.options;
    if (until !== undefined && Date.parse(until) <= now) throw timeOver(this.#target, this.options);
  }

  /** Whether it may concern other users of the target. */
  get isForEveryone(): boolean {
    return this.#changer.by === 'everyone' && !isEmpty(this.#named);
  }

  /** Stores what takes something away, before anything else happens. */
  async begin(): Promise<void> {
    if (isEmpty(this.#narrower)) return;
    await this.#stored.change(this.#target, (grant) => narrowedGrant(grant, this.#changer, this.#narrower));
  }

  /** Stores the whole change. */
  async commit(): Promise<void> {
    // A container that was made again gets an entry by its own ID, also if nothing was named.
    if (isEmpty(this.#named) && this.#stands.length === 0) return;
    await this.#stored.change(this.#target, (grant) => changedGrant(grant, this.#changer, this.#named));
  }

  /**
   * Nothing came of the change, for this reason: what takes something away stays, what lifts something is as it was
   * before, and so are keys that can't be had.
   */
  async failed(error?: unknown): Promise<void> {
    if (isEmpty(this.#named)) return;
    const kept = this.#kept(error);
    await this.#stored.change(this.#target, (grant, at) =>
      narrowedGrant(this.#restored(grant, at), this.#changer, kept),
    );
  }

  /** Whether a change failed because what was named leaves nothing, or names a key that is not there. */
  isWrong(error: unknown): boolean {
    return this.#wrongKeys(error) !== undefined || this.#leavesNothing(error);
  }

  /** What stays taken away after a change failed for this reason, in a person's words. */
  keptWords(error: unknown): string[] {
    return restrictionWords(this.#kept(error));
  }

  get #narrower(): Restrictions {
    const held = heldFor(this.#stands, this.#changer.users);
    return namedRestrictions(narrowing(held, { ...held, ...this.#named }));
  }

  /** Of that, what can be had: a host without the other agent has nothing to bridge. */
  #kept(error: unknown): Restrictions {
    const { gpgKeys, sshKeys, gpg, ssh, ...rest } = this.#narrower;
    const wrong = this.#wrongKeys(error);
    const agents = { ...(gpg === undefined ? {} : { gpg }), ...(ssh === undefined ? {} : { ssh }) };
    return {
      ...rest,
      ...(this.#leavesNothing(error) ? {} : agents),
      ...(gpgKeys && wrong !== 'gpgKeys' ? { gpgKeys } : {}),
      ...(sshKeys && wrong !== 'sshKeys' ? { sshKeys } : {}),
    };
  }

  #leavesNothing(error: unknown): boolean {
    if (!(error instanceof BridgeError)) return false;
    // Unlike a person's, a rule's options are compared with what is stored only after they were.
    return error.code === 'NO_HOST_AGENT' || (this.isOfRule && error.code === 'USAGE');
  }

  #wrongKeys(error: unknown): 'gpgKeys' | 'sshKeys' | undefined {
    if (!isUnknownKey(error)) return undefined;
    const kind = (error as BridgeError).code === 'GPG_KEY_UNKNOWN' ? 'gpgKeys' : 'sshKeys';
    return this.#named[kind] === undefined ? undefined : kind;
  }

  #restored(grant: Grant, at: number): Grant {
    const before = this.#before[at] ?? this.#stands[0] ?? NO_RESTRICTIONS;
    return restoredGrant(grant, before, this.#changer, this.#named);
  }

  /** Whether a rule says it, which leaves a bridge that runs as it is. */
  get isOfRule(): boolean {
    return this.#changer.by === 'rule' || this.#changer.by === 'ruleUser';
  }

  get #after(): Grant[] {
    const before = this.#stands.length === 0 ? [NO_RESTRICTIONS] : this.#stands;
    return before.map((grant) => changedGrant(grant, this.#changer, this.#named));
  }
}

/** A rule's own options or a person's, for one user or for everyone. */
function changerOf({ rule, user }: BridgeOptions): GrantChanger['by'] {
  if (rule !== undefined) return user === undefined ? 'rule' : 'ruleUser';
  return user === undefined ? 'everyone' : 'user';
}

/** Options under restrictions; unlike between bridges, the environment's GNUPGHOME stays. */
function under(given: BridgeOptions, held: Restrictions): BridgeOptions {
  const { gnupgHome } = given;
  return { ...mergedOptions(given, held), ...(gnupgHome === undefined ? {} : { gnupgHome }) };
}

function timeOver({ name }: Target, { until, user, exec }: BridgeOptions): BridgeError {
  const words = operandWords(name, {
    ...(user === undefined ? {} : { user }),
    ...(exec === undefined ? {} : { exec }),
  });
  return new BridgeError('TIME_OVER', {
    what: `no bridge to ${name} is brought up`,
    why: `the time that it was given (--for) was over at ${until!.replace(/\.\d+Z$/, 'Z')}`,
    fix: `Give it time again: \`gpg-bridge up ${words} --for 1h\`.`,
  });
}
