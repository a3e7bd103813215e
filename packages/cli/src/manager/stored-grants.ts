import { createHash } from 'node:crypto';
import { existsSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { readPlainFile } from '@gpg-bridge/core/fs/plain-file';
import { whileClaimed } from '../daemon/claim.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import { checkStateDirectory, recordDirectory, stateDirectory, unusableState } from '../daemon/state-dir.ts';
import { type Grant, isEmpty, isRestrictions, NO_RESTRICTIONS } from '../grants/restrictions.ts';
import type { LocatedName } from '../targets/resolve.ts';
import type { Target } from '../targets/target.ts';

/** What a target is known by in its grant. */
export type GrantTarget = Pick<Target, 'kind' | 'id' | 'canonical' | 'place' | 'name'>;

const VERSION = 1;

/** The restrictions of targets, each in a file that outlives the bridge, the daemon and the login. */
export class StoredGrants {
  readonly #parent: string;

  /** `bridges` is where the files of the bridges are. */
  constructor(bridges: string = stateDirectory()) {
    this.#parent = bridges === stateDirectory() ? recordDirectory() : bridges;
  }

  /** What is stored for a target; undefined if nothing is. Throws for a file that does not say it clearly. */
  read(target: GrantTarget): Grant | undefined {
    return this.#find(scopesOf(target))?.grant;
  }

  /** Changes what is stored for a target while nobody else does. */
  async change(target: GrantTarget, change: (grant: Grant) => Grant): Promise<void> {
    const scopes = scopesOf(target);
    await this.#whileLocked(() => {
      const before = this.#find(scopes);
      const after = change(before?.grant ?? NO_RESTRICTIONS);
      if (!before && isNothing(after)) return;
      for (const scope of scopes) {
        if (isNothing(after)) this.#remove(scope);
        else this.#write(scope, target.name, after);
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
  async forgetUser(target: GrantTarget, user: string): Promise<boolean> {
    let isDropped = false;
    await this.change(target, (grant) => {
      const { [user]: own, ...users } = grant.users;
      isDropped = own !== undefined;
      return { ...grant, users };
    });
    return isDropped;
  }

  /** Whether one user of a target has restrictions apart from everyone's. */
  hasUser(target: GrantTarget, user: string): boolean {
    const grant = this.read(target);
    return grant !== undefined && Object.hasOwn(grant.users, user);
  }

  /** Whether anything is stored for any target. */
  get hasAny(): boolean {
    return existsSync(this.#directory);
  }

  /** Whether anything is stored for a target, be it clear or not. */
  has(target: GrantTarget | LocatedName): boolean {
    return scopesOf(target).some((scope) => existsSync(this.#path(scope)));
  }

  /** The first of the scopes under which something is stored. */
  #find(scopes: readonly string[]): { scope: string; grant: Grant } | undefined {
    checkStateDirectory(this.#parent);
    checkStateDirectory(this.#directory);
    for (const scope of scopes) {
      const grant = this.#readScope(scope);
      if (grant) return { scope, grant };
    }
    return undefined;
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
  #write(scope: string, target: string, { rule, everyone, users }: Grant): void {
    ensureStateDirectory(this.#directory);
    const path = this.#path(scope);
    const text = JSON.stringify({ version: VERSION, scope, target, rule, everyone, users });
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

/** A target by itself, and by its engine and name: a container made again has another ID. */
function scopesOf(target: GrantTarget | LocatedName): string[] {
  if (!('id' in target)) return [nameScope(target)];
  const { kind, id, canonical, place, name } = target;
  const identity = `${kind}\nid\n${canonical ?? id}`;
  return place === undefined ? [identity] : [identity, nameScope({ kind, place, name })];
}

function nameScope({ kind, place, name }: LocatedName): string {
  return `${kind}\nname\n${place}\n${name}`;
}

function isNothing({ rule, everyone, users }: Grant): boolean {
  return isEmpty(rule) && isEmpty(everyone) && isEmpty(users);
}

function parsed(path: string, text: string, expected: string): Grant {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(path, (error as Error).message, error);
  }
  if (typeof value !== 'object' || value === null) throw unreadable(path, 'it is not a JSON object');
  const { version, scope, target, rule, everyone, users, ...more } = value as Record<string, unknown>;
  if (version !== VERSION) throw unreadable(path, `its version is not ${VERSION}`);
  if (scope !== expected || typeof target !== 'string') throw unreadable(path, 'it is about another target');
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) throw unreadable(path, `it has an unknown entry ${JSON.stringify(unknown)}`);
  const isUsers = typeof users === 'object' && users !== null && Object.values(users).every(isRestrictions);
  if (!isRestrictions(rule) || !isRestrictions(everyone) || !isUsers)
    throw unreadable(path, 'it has an entry that is not a restriction');
  return { rule, everyone, users: users as Grant['users'] };
}

function unreadable(path: string, why: string, cause?: unknown): BridgeError {
  return new BridgeError('GRANT_UNREADABLE', {
    what: `can't read the restrictions in ${path}`,
    why,
    fix: 'Restore the file. If you have no copy, remove it and give the restrictions again with `gpg-bridge up`.',
    ...(cause === undefined ? {} : { cause }),
  });
}
