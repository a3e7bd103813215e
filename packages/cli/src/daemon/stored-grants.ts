import { createHash } from 'node:crypto';
import { existsSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { readPlainFile } from '@gpg-bridge/core/fs/plain-file';
import {
  type Grant,
  hasUser,
  isEmpty,
  isRestrictions,
  NO_RESTRICTIONS,
  withoutUser,
} from '../grants/restrictions.ts';
import type { LocatedName } from '../targets/resolve.ts';
import type { Target } from '../targets/target.ts';
import { whileClaimed } from './claim.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { checkStateDirectory, recordDirectory, stateDirectory, unusableState } from './state-dir.ts';

/** What a target is known by in its grant. */
export type GrantTarget = Pick<Target, 'kind' | 'id' | 'canonical' | 'place' | 'name' | 'typed'>;

/** The words under which the restrictions of a target's user are stored: the target decides on the last one. */
export function grantUsers({ user, userWord }: Pick<Target, 'user' | 'userWord'>): string[] {
  return [...new Set([...(userWord === undefined ? [] : [userWord]), user])];
}

const VERSION = 1;
/** Places where one engine answers, whether it is called Docker or Podman; behind ssh each command finds its own. */
const ONE_ENGINE = /^(?:unix|tcp|npipe):/;

/** The restrictions of targets, each in a file that outlives the bridge, the daemon and the login. */
export class StoredGrants {
  readonly #parent: string;

  /** `bridges` is where the files of the bridges are. */
  constructor(bridges: string = stateDirectory()) {
    this.#parent = bridges === stateDirectory() ? recordDirectory() : bridges;
  }

  /**
   * What is stored for a target, under each of the names by which it is known; all of that holds. Throws for a file that
   * does not say it clearly.
   */
  read(target: GrantTarget): Grant[] {
    return this.readEach(target).filter((grant) => grant !== undefined);
  }

  /** The same in the order of the names, of which some may have nothing. */
  readEach(target: GrantTarget): (Grant | undefined)[] {
    this.#check();
    return scopesOf(target).map((scope) => this.#readScope(scope));
  }

  /** Where that is stored. */
  paths(target: GrantTarget): string[] {
    return scopesOf(target).map((scope) => this.#path(scope));
  }

  /** Changes what is stored for a target, under each of its names, while nobody else does. */
  async change(target: GrantTarget, change: (grant: Grant, at: number) => Grant): Promise<void> {
    const scopes = scopesOf(target);
    await this.#whileLocked(() => {
      const before = this.readEach(target);
      const another = before.find((grant) => grant) ?? NO_RESTRICTIONS;
      // All are read and made before one is written.
      const after = before.map((grant, at) => change(grant ?? another, at));
      for (const [at, scope] of scopes.entries()) {
        if (!isNothing(after[at]!)) this.#write(scope, target.name, after[at]!);
        else if (before[at]) this.#remove(scope);
      }
    });
  }

  /** Drops what is stored for a target, or for one that can't be looked up by its name; false if nothing was. */
  async forget(target: GrantTarget | LocatedName): Promise<boolean> {
    const scopes = scopesOf(target);
    // Not read: one that can't be understood goes, too.
    const removed = await this.#whileLocked(() => scopes.map((scope) => this.#remove(scope)));
    return removed.includes(true);
  }

  /** Drops what is stored for one user of a target alone; false if nothing was. */
  async forgetUser(target: GrantTarget, users: readonly string[]): Promise<boolean> {
    let isDropped = false;
    await this.change(target, (grant) => {
      isDropped ||= hasUser(grant, users);
      return withoutUser(grant, users);
    });
    return isDropped;
  }

  /** Whether one user of a target has restrictions apart from everyone's. */
  hasUser(target: GrantTarget, users: readonly string[]): boolean {
    return this.read(target).some((grant) => hasUser(grant, users));
  }

  /** Whether anything is stored for any target. */
  get hasAny(): boolean {
    return existsSync(this.#directory);
  }

  /** Whether anything is stored for a target, be it clear or not. */
  has(target: GrantTarget | LocatedName): boolean {
    return scopesOf(target).some((scope) => existsSync(this.#path(scope)));
  }

  /** Throws where others could have written what is stored. */
  #check(): void {
    checkStateDirectory(this.#parent);
    checkStateDirectory(this.#directory);
  }

  #readScope(scope: string): Grant | undefined {
    const path = this.#path(scope);
    let text: string;
    try {
      text = readPlainFile(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw unreadable(path, (error as Error).message, error);
    }
    return parsed(path, text, scope);
  }

  /** Replaces a file as a whole: a reader sees the old one or the new one. */
  #write(scope: string, target: string, grant: Grant): void {
    ensureStateDirectory(this.#directory);
    const path = this.#path(scope);
    const text = JSON.stringify({ version: VERSION, scope, target, ...grant });
    try {
      rmSync(`${path}.new`, { force: true });
      writeFileSync(`${path}.new`, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true });
      renameSync(`${path}.new`, path);
    } catch (error) {
      throw unusableState(this.#directory, error as Error);
    }
  }

  #remove(scope: string): boolean {
    try {
      rmSync(this.#path(scope));
      this.#removeIfEmpty();
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw unusableState(this.#directory, error as Error);
    }
  }

  #removeIfEmpty(): void {
    try {
      rmdirSync(this.#directory);
    } catch {
      // It has the restrictions of other targets.
    }
  }

  #whileLocked<T>(change: () => T): Promise<T> {
    ensureStateDirectory(this.#parent);
    return whileClaimed(join(this.#parent, 'grants.lock'), change);
  }

  get #directory(): string {
    return join(this.#parent, 'grants');
  }

  #path(scope: string): string {
    return join(this.#directory, `${createHash('sha256').update(scope).digest('hex')}.json`);
  }
}

/**
 * A target by itself, by its engine and name since a container made again has another ID, and by the words that lead
 * there since they may come to lead elsewhere.
 */
function scopesOf(target: GrantTarget | LocatedName): string[] {
  if (!('id' in target)) return [nameScope(target)];
  const { kind, id, canonical, place, name, typed } = target;
  return [
    `${kind === 'podman' ? 'docker' : kind}\nid\n${canonical ?? id}`,
    ...(place === undefined ? [] : [nameScope({ kind, place, name })]),
    ...(typed === undefined ? [] : [`${kind}\ntyped\n${typed}`]),
  ];
}

/** Where Docker's socket is Podman's, a container has one name for both. */
function nameScope({ kind, place, name }: LocatedName): string {
  if (kind !== 'podman' || !ONE_ENGINE.test(place)) return `${kind}\nname\n${place}\n${name}`;
  return nameScope({ kind: 'docker', place, name: name.replace(/^podman:/, '') });
}

function isNothing(grant: Grant): boolean {
  return Object.values(grant).every(isEmpty);
}

function parsed(path: string, text: string, expected: string): Grant {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(path, (error as Error).message, error);
  }
  if (typeof value !== 'object' || value === null) throw unreadable(path, 'it is not a JSON object');
  const { version, scope, target, rule, ruleUsers, everyone, users, ...more } = value as Record<
    string,
    unknown
  >;
  if (version !== VERSION) throw unreadable(path, `its version is not ${VERSION}`);
  if (scope !== expected || typeof target !== 'string') throw unreadable(path, 'it is about another target');
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) throw unreadable(path, `it has an unknown entry ${JSON.stringify(unknown)}`);
  if (!isRestrictions(rule) || !isRestrictions(everyone) || !isUsers(users) || !isUsers(ruleUsers))
    throw unreadable(path, 'it has an entry that is not a restriction');
  return { rule, ruleUsers, everyone, users };
}

function isUsers(value: unknown): value is Grant['users'] {
  return typeof value === 'object' && value !== null && Object.values(value).every(isRestrictions);
}

function unreadable(path: string, why: string, cause?: unknown): BridgeError {
  return new BridgeError('GRANT_UNREADABLE', {
    what: `can't read the restrictions in ${path}`,
    why,
    fix: 'Restore the file. Until then its target uses no key.',
    ...(cause === undefined ? {} : { cause }),
  });
}
