import { lstatSync } from 'node:fs';
import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { BridgeOptions } from '../bridge-options.ts';
import { heldFor, heldWithin, isEmpty, type Narrowing, narrowing } from '../grants/restrictions.ts';
import type { Target } from '../targets/target.ts';
import { grantUsers, type StoredGrants } from './stored-grants.ts';

/** Which bridge is held to what. */
export interface HeldGrantOptions {
  stored: StoredGrants;
  /** The target, which may be another one each time. */
  target(): Target;
  /** As they are by now. */
  options(): BridgeOptions;
  narrow(narrower: Narrowing): Promise<void>;
}

/**
 * Holds a daemon to the restrictions that are stored for its target, also when whoever stored them was killed before the
 * daemon heard of them, or does not know of this daemon.
 */
export class HeldGrant {
  readonly #bridge: HeldGrantOptions;
  #target: Target | undefined;
  #paths: readonly string[] = [];
  #seen: string | undefined;
  #problem: BridgeError | undefined;

  constructor(bridge: HeldGrantOptions) {
    this.#bridge = bridge;
  }

  /** Has the bridge keep to what is stored by now; why no key may be used, if that is so. Cheap unless it has changed. */
  check(): BridgeError | undefined {
    try {
      const seen = this.#look();
      if (seen === this.#seen) return this.#problem;
      this.#keepToStored();
      this.#seen = seen;
    } catch (error) {
      this.#seen = undefined;
      this.#problem = toBridgeError(error, "can't read the restrictions of the target");
    }
    return this.#problem;
  }

  /** What tells every version of the files from another: each is a new file. */
  #look(): string {
    const target = this.#bridge.target();
    if (target !== this.#target) {
      this.#target = target;
      this.#paths = this.#bridge.stored.paths(target);
      this.#seen = undefined;
    }
    return this.#paths.map(versionOf).join(' ');
  }

  #keepToStored(): void {
    this.#problem = undefined;
    const narrower = this.#narrower();
    // What can't be known yet is forbidden by itself, and a key that is not there is told by `failed`.
    if (!isEmpty(narrower)) void this.#bridge.narrow(narrower).catch(() => {});
  }

  /** What is stored takes this away from what the bridge allows. */
  #narrower(): Narrowing {
    const { stored, options } = this.#bridge;
    const before = options();
    const held = heldFor(stored.read(this.#target!), grantUsers(this.#target!));
    return narrowing(before, { ...before, ...heldWithin(held, before) });
  }

  /** The bridge can't be narrowed to keys that are not there: no key is used while those are the ones that are stored. */
  failed(named: Narrowing, error: BridgeError): void {
    try {
      const seen = this.#look();
      const { gpgKeys, sshKeys } = this.#narrower();
      const isSame = [gpgKeys, sshKeys].join('\n') === [named.gpgKeys, named.sshKeys].join('\n');
      this.#seen = isSame ? seen : undefined;
      if (isSame) this.#problem = error;
    } catch {
      this.#seen = undefined; // which is told when it is looked at again
    }
  }
}

function versionOf(path: string): string {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.ino}.${found.mtimeNs}.${found.ctimeNs}.${found.size}` : '-';
}
