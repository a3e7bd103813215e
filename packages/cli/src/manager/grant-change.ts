import { BridgeError } from '@gpg-bridge/core/errors';
import { type BridgeOptions, checkOptions, mergedOptions, withoutMoot } from '../bridge-options.ts';
import {
  changedGrant,
  type Grant,
  type GrantChanger,
  heldFor,
  isEmpty,
  NO_RESTRICTIONS,
  namedRestrictions,
  narrowing,
  type Restrictions,
  restoredGrant,
  restrictionWords,
} from '../grants/restrictions.ts';
import { operandWords } from '../targets/operand-words.ts';
import type { Target } from '../targets/target.ts';
import type { StoredGrants } from './stored-grants.ts';

/** What somebody says about a bridge, with what is stored for its target: what comes of both, and how that is stored. */
export class GrantChange {
  /** Everything that was said, under the restrictions that hold. */
  readonly options: BridgeOptions;
  /** Restrictions that hold and were not said now, in a person's words. */
  readonly inherited: string[];
  readonly #stored: StoredGrants;
  readonly #target: Target;
  readonly #before: Grant | undefined;
  readonly #changer: GrantChanger;
  readonly #named: Restrictions;

  /** Throws for a file that can't be read, a time that is over, and options that exclude what holds. */
  constructor(stored: StoredGrants, target: Target, given: BridgeOptions, now = Date.now()) {
    this.#stored = stored;
    this.#target = target;
    this.#before = stored.read(target);
    this.#named = namedRestrictions(given);
    this.#changer = { user: target.user, by: changerOf(given) };
    const before = this.#before ?? NO_RESTRICTIONS;
    const held = heldFor(before, target.user);
    if (this.#changer.by !== 'rule') checkOptions(mergedOptions(held, given), held);
    const merged = under(given, heldFor(this.#after, target.user));
    this.options = withoutMoot(merged, merged);
    const { until } = this.options;
    if (until !== undefined && Date.parse(until) <= now) throw timeOver(target, this.options);
    const named = new Set(restrictionWords(given));
    this.inherited = restrictionWords(this.options).filter((word) => !named.has(word));
  }

  /** The restrictions that hold for another user of the target from now on. */
  heldFor(user: string): Restrictions {
    return heldFor(this.#after, user);
  }

  /** Whether it may concern other users of the target. */
  get isForEveryone(): boolean {
    return this.#changer.by === 'everyone' && !isEmpty(this.#named);
  }

  /** Stores what takes something away, before anything else happens. */
  async begin(): Promise<void> {
    const held = heldFor(this.#before ?? NO_RESTRICTIONS, this.#target.user);
    const narrower = namedRestrictions(narrowing(held, { ...held, ...this.#named }));
    if (isEmpty(narrower)) return;
    await this.#stored.change(this.#target, (grant) =>
      this.#changer.by === 'rule'
        ? { ...grant, rule: { ...grant.rule, ...narrower } }
        : changedGrant(grant, this.#changer, narrower),
    );
  }

  /** Stores the whole change: it has been made. */
  async commit(): Promise<void> {
    // A container that was made again gets an entry by its own ID, also if nothing was named.
    if (isEmpty(this.#named) && !this.#before) return;
    await this.#stored.change(this.#target, (grant) => changedGrant(grant, this.#changer, this.#named));
  }

  /** Stores again what was stored before: nothing came of the change. */
  async rollBack(): Promise<void> {
    if (isEmpty(this.#named)) return;
    const before = this.#before ?? NO_RESTRICTIONS;
    await this.#stored.change(this.#target, (grant) =>
      restoredGrant(grant, before, this.#changer, this.#named),
    );
  }

  /** Whether a rule says it, which leaves a bridge that runs as it is. */
  get isOfRule(): boolean {
    return this.#changer.by === 'rule';
  }

  get #after(): Grant {
    return changedGrant(this.#before ?? NO_RESTRICTIONS, this.#changer, this.#named);
  }
}

/** A rule's own options, a person's for one user, or for everyone. */
function changerOf({ rule, user }: BridgeOptions): GrantChanger['by'] {
  if (rule !== undefined) return 'rule';
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
