import { createHash } from 'node:crypto';
import { type BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { type KeyringWatch, watchKeyring } from '@gpg-bridge/core/host/keyring-watch';
import { exportPublicKeys, type PublicKeys } from '@gpg-bridge/core/host/public-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import { type ImportResult, importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';
import { inTime } from './check-sockets.ts';
import { keyProblem, STILL_IMPORTING } from './key-problem.ts';

/** What a target's keyring follows. */
export interface KeySyncParts {
  operations: TargetOperations;
  filter: KeyFilter;
  /** The keys that the target has been given; undefined if they could not be had. */
  given: PublicKeys | undefined;
  /** They are imported, or why not; never rejects. */
  imported: Promise<BridgeError | undefined>;
  /** The environment of the host's gpg, if not this process's own. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Told when the host's keys have changed and the target has the new ones. */
  onChange?: (() => Promise<void>) | undefined;
  log: LogCallback;
}

/** Between imports of keys that the target may lack: it decides itself when its socket is made anew. */
const DOUBT_PAUSE_MS = 15_000;
const CANT_IMPORT = "can't import the host's public keys";

/** Gives a target the host's public keys again: when it is asked to, when they have changed, and when it may lack them. */
export class KeySync {
  readonly #parts: KeySyncParts;
  #given: string;
  #watch: KeyringWatch | undefined;
  #isClosed = false;
  /** One at a time: two imports at once would only wait for each other's lock. */
  #last: Promise<unknown>;
  #problem: string | undefined;
  /** The target's home may be a new one, without the keys. */
  #isInDoubt = false;
  #mending: Promise<string[]> | undefined;
  #mended: { at: number; words: string[] } = { at: 0, words: [] };
  #nextInDoubt = 0;
  #later: NodeJS.Timeout | undefined;

  constructor(parts: KeySyncParts) {
    this.#parts = parts;
    this.#given = parts.given ? digest(parts.given) : '';
    this.#last = parts.imported.then((failure) => {
      if (failure) this.#problem = keyProblem(failure);
    });
  }

  /** Why the target lacks keys, in words for a person: until an import succeeds. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Whether the target may lack keys, as far as that is known without asking it. */
  get mayLackKeys(): boolean {
    return this.#problem !== undefined || this.#isInDoubt || this.#mending !== undefined;
  }

  /** To be told when gpg's socket had to be made anew: the keys may have gone with it, and are imported again. */
  doubt(): void {
    this.#isInDoubt = true;
    this.#mendInDoubt();
  }

  /**
   * Imports keys again that the target may lack; resolves to what was mended, by itself since that time too, and does
   * not wait for ever.
   */
  async mend(since: number): Promise<string[]> {
    if (!this.mayLackKeys) return this.#mended.at >= since ? this.#mended.words : [];
    const mended = await inTime<string[] | undefined>(this.#mend(), undefined);
    if (!mended && this.#mending) this.#problem ??= STILL_IMPORTING;
    return mended ?? [];
  }

  /** Imports the keys that the target shall have, whether they have changed or not. */
  sync(): Promise<ImportResult> {
    return this.#inTurn(async () => this.#import(await this.#export()));
  }

  /** Does so whenever the host's keys change, until it is closed. */
  async watch(): Promise<void> {
    const { filter, env, log } = this.#parts;
    if (filter === 'none') return;
    try {
      const home = await listDir('homedir', env ? { env } : {});
      if (this.#isClosed) return;
      const follow = () => void this.#inTurn(() => this.#follow());
      this.#watch = watchKeyring(home, follow);
      follow(); // what has changed since the keys were exported
    } catch (error) {
      log(`the host's keyring is not watched: ${(error as Error).message}`, 'warn');
    }
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#later);
    this.#watch?.close();
  }

  #mendInDoubt(): void {
    clearTimeout(this.#later);
    const now = performance.now();
    if (now < this.#nextInDoubt) {
      this.#later = setTimeout(() => this.#mendInDoubt(), this.#nextInDoubt - now).unref();
      return;
    }
    this.#nextInDoubt = now + DOUBT_PAUSE_MS;
    void this.#mend();
  }

  #mend(): Promise<string[]> {
    this.#mending ??= this.#inTurn(() => this.#importMissing()).finally(() => {
      this.#mending = undefined;
      if (this.#isInDoubt) this.#mendInDoubt(); // again, since it began
    });
    return this.#mending;
  }

  async #importMissing(): Promise<string[]> {
    const { log } = this.#parts;
    this.#isInDoubt = false;
    if (this.#isClosed) return [];
    try {
      const { added, updated } = await this.#import(await this.#export());
      if (added + updated === 0) return [];
      const mended = `public keys that were missing there: ${added} new, ${updated} updated`;
      this.#mended = { at: performance.now(), words: [mended] };
      log(mended, 'warn');
      return [mended];
    } catch (error) {
      this.#problem = keyProblem(toBridgeError(error, CANT_IMPORT)); // also if the host can't export them
      if (!this.#isClosed) log(this.#problem, 'warn');
      return [];
    }
  }

  async #follow(): Promise<void> {
    const { log, onChange } = this.#parts;
    try {
      const keys = await this.#export();
      if (this.#isClosed || digest(keys) === this.#given) return;
      const { added, updated } = await this.#import(keys);
      await onChange?.();
      log(`the host's keyring changed; public keys there: ${added} new, ${updated} updated`, 'info');
    } catch (error) {
      if (this.#isClosed) return;
      log(toBridgeError(error, "can't synchronise the host's public keys").message, 'warn');
    }
  }

  #export(): Promise<PublicKeys> {
    const { filter, env } = this.#parts;
    return exportPublicKeys(filter, env ? { env } : {});
  }

  async #import(keys: PublicKeys): Promise<ImportResult> {
    try {
      const result = await importPublicKeys(keys, this.#parts.operations);
      this.#given = digest(keys);
      this.#problem = undefined;
      return result;
    } catch (error) {
      this.#problem = keyProblem(toBridgeError(error, CANT_IMPORT));
      throw error;
    }
  }

  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(step, step);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

/** Tells one export from another. */
function digest({ keys, trust }: PublicKeys): string {
  return createHash('sha256').update(keys).update(trust.join()).digest('hex');
}
