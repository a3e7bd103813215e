import { createHash } from 'node:crypto';
import { toBridgeError } from '@gpg-bridge/core/errors';
import { listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { type KeyringWatch, watchKeyring } from '@gpg-bridge/core/host/keyring-watch';
import { exportPublicKeys, type PublicKeys } from '@gpg-bridge/core/host/public-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import { type ImportResult, importPublicKeys } from '@gpg-bridge/core/remote/keyring';
import type { TargetOperations } from '@gpg-bridge/core/remote/operations';

/** What a target's keyring follows. */
export interface KeySyncParts {
  operations: TargetOperations;
  filter: KeyFilter;
  /** The keys that the target has been given. */
  given: PublicKeys;
  /** The environment of the host's gpg, if not this process's own. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Told when the host's keys have changed and the target has the new ones. */
  onChange?: (() => Promise<void>) | undefined;
  log: LogCallback;
}

/** Gives a target the host's public keys again: when it is asked to, and when they have changed. */
export class KeySync {
  readonly #parts: KeySyncParts;
  #given: string;
  #watch: KeyringWatch | undefined;
  #isClosed = false;
  /** One at a time: two imports at once would only wait for each other's lock. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: KeySyncParts) {
    this.#parts = parts;
    this.#given = digest(parts.given);
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
      if (!this.#isClosed) this.#watch = watchKeyring(home, () => void this.#inTurn(() => this.#follow()));
    } catch (error) {
      log(`the host's keyring is not watched: ${(error as Error).message}`, 'warn');
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#watch?.close();
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
    const result = await importPublicKeys(keys, this.#parts.operations);
    this.#given = digest(keys);
    return result;
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
