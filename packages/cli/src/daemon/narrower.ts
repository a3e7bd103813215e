import { BridgeError } from '@gpg-bridge/core/errors';
import type { KeyUse } from '@gpg-bridge/core/host/key-use-record';
import { type BridgeOptions, mergedOptions } from '../bridge-options.ts';
import type { Narrowing } from '../grants/restrictions.ts';

/** What is narrowed. */
export interface NarrowerOptions {
  /** As they are by now. */
  options(): BridgeOptions;
  setOptions(options: BridgeOptions): void;
  /** Has everything that needs no lookup follow the options. */
  keepToOptions(): void;
  /** Looks up keys, and has the bridge keep to them. */
  keepToKeys(named: Named): Promise<void>;
}

/** An agent that did not say which keys it has is asked again after this time. */
const LOOK_AGAIN_MS = 2_000;

/** What can't be kept to without a lookup of keys: without GPG, no SSH key may make OpenPGP signatures either. */
type Named = Pick<Narrowing, 'gpgKeys' | 'sshKeys' | 'gpg'>;

/**
 * Narrows what a bridge's target may do. What needs no lookup holds at once; until keys that are named have been looked
 * up, which an agent may hold off that waits for a person, none of their kind is used.
 */
export class Narrower {
  readonly #bridge: NarrowerOptions;
  /** Names that are not looked up yet. */
  #unknown: Named = {};
  #looking: Promise<void> | undefined;
  #lookingAgain: NodeJS.Timeout | undefined;

  constructor(bridge: NarrowerOptions) {
    this.#bridge = bridge;
  }

  /** Resolves when keys that are named have been looked up; throws for one that is not there, which is as if not named. */
  async narrow(narrower: Narrowing): Promise<void> {
    const before = this.#bridge.options();
    const unknownBefore = this.#unknown;
    this.#bridge.setOptions(mergedOptions(before, { gnupgHome: before.gnupgHome!, ...narrower }));
    const unknown = lookedUp(narrower);
    const isLookedUp = Object.keys(unknown).length > 0;
    if (isLookedUp) this.#unknown = { ...unknownBefore, ...unknown };
    this.#bridge.keepToOptions();
    if (!isLookedUp) return;
    try {
      await this.#lookUp();
    } catch (error) {
      if (isUnknownKey(error)) this.#takeBack(unknown, before, unknownBefore);
      throw error;
    }
  }

  /** Why a key must not be used yet. */
  forbids({ command }: KeyUse): BridgeError | undefined {
    const { gpgKeys, sshKeys, gpg } = this.#unknown;
    // An ssh-agent that is gpg-agent has the same private keys.
    if (!gpgKeys && !((sshKeys || gpg === false) && command === 'sign')) return undefined;
    void this.#lookUp().catch(() => {}); // whatever prevented the lookup may have passed
    return new BridgeError('NOT_GRANTED', {
      what: 'the key was not used',
      why: 'what the target may do was narrowed, and which keys that leaves is not known yet',
      fix: 'Try again.',
    });
  }

  /** Resolves when nothing is being looked up. */
  async settled(): Promise<void> {
    await this.#looking?.catch(() => {});
  }

  #lookUp(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((error: unknown) => {
        if (!isUnknownKey(error)) this.#lookAgain();
        throw error;
      })
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  #lookAgain(): void {
    clearTimeout(this.#lookingAgain);
    this.#lookingAgain = setTimeout(() => void this.#lookUp().catch(() => {}), LOOK_AGAIN_MS).unref();
  }

  async #look(): Promise<void> {
    for (let unknown: Named | undefined; unknown !== this.#unknown; ) {
      unknown = this.#unknown; // more may be named meanwhile
      await this.#bridge.keepToKeys(lookedUp(this.#bridge.options()));
    }
    this.#unknown = {};
  }

  #takeBack(named: Named, before: BridgeOptions, unknownBefore: Named): void {
    const now = { ...this.#bridge.options() };
    for (const name of ['gpgKeys', 'sshKeys'] as const) {
      if (named[name] === undefined || now[name] !== named[name]) continue;
      if (before[name] === undefined) delete now[name];
      else now[name] = before[name];
    }
    this.#bridge.setOptions(now);
    this.#unknown = { ...unknownBefore, ...(named.gpg === false ? { gpg: false } : {}) };
  }
}

function lookedUp({ gpg, gpgKeys, sshKeys }: Narrowing): Named {
  return {
    ...(gpgKeys?.length ? { gpgKeys } : {}),
    ...(sshKeys?.length ? { sshKeys } : {}),
    ...(gpg === false ? { gpg } : {}),
  };
}

/** Whether an error says that a key which was named is not there, and not that this can't be known. */
export function isUnknownKey(error: unknown): boolean {
  if (!(error instanceof BridgeError)) return false;
  return /^(?:GPG|SSH)_KEY_UNKNOWN$/.test(error.code) && error.what.startsWith("can't offer the ");
}
