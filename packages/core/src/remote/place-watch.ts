import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { LogCallback } from '../log.ts';

/**
 * How often to look where there is no watch: the directory is missing, or the system has none left to
 * give (inotify instances are few per user).
 */
const FALLBACK_INTERVAL_MS = 5_000;

/** Calls back whenever something happens to a name in its directory, or to that; keeps no process alive. */
export class PlaceWatch {
  readonly #directory: string;
  readonly #name: string;
  #watcher: FSWatcher | undefined;
  #fallback: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    path: string,
    private readonly onChange: () => void,
    private readonly log: LogCallback,
  ) {
    this.#directory = dirname(path);
    this.#name = basename(path);
    this.renew();
  }

  /** Watches the directory that now has the name: a watch belongs to the one it was made for. */
  renew(): void {
    this.#stop();
    if (this.#closed) return;
    try {
      this.#watcher = watch(this.#directory, { persistent: false }, (_event, name) => this.#onEvent(name));
      this.#watcher.on('error', (error) => this.#fallBack(error));
    } catch (error) {
      this.#fallBack(error as Error);
    }
  }

  /** Ends the calls. */
  close(): void {
    this.#closed = true;
    this.#stop();
  }

  #onEvent(name: string | null): void {
    // The directory's own name stands for its removal or renaming; null for what the system can't tell.
    if (name === basename(this.#directory)) this.renew();
    else if (name !== this.#name && name !== null) return;
    this.onChange();
  }

  #fallBack(error: NodeJS.ErrnoException): void {
    this.#stop();
    this.log(`can't watch ${this.#directory} (${error.code}): looking every few seconds instead`, 'debug');
    this.#fallback = setInterval(this.onChange, FALLBACK_INTERVAL_MS).unref();
  }

  #stop(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#fallback);
  }
}
