import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { lstatIdentitySync, type SocketIdentity } from '../fs/socket-identity.ts';
import type { LogCallback } from '../log.ts';

/**
 * How often to look where there is no watch: the directory is missing, or the system has none left to
 * give (inotify instances are few per user).
 */
const FALLBACK_INTERVAL_MS = 5_000;
/** A directory that is just being removed would else get a new socket while it is being emptied. */
const SETTLE_MS = 50;

/** Tells when a path leads to something else than a file, once for each thing; keeps no process alive. */
export class PathWatch {
  readonly #path: string;
  readonly #own: string;
  #lastSeen: string;
  #watcher: FSWatcher | undefined;
  #fallback: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    path: string,
    own: SocketIdentity,
    private readonly onReplaced: () => void,
    private readonly log: LogCallback,
  ) {
    this.#path = path;
    this.#own = this.#lastSeen = `${own.dev}:${own.ino}`;
    this.#watch();
    setImmediate(() => this.#look()); // for what happened before there was a watch
  }

  /** Ends the calls. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#settling);
    this.#stop();
  }

  #look(): void {
    if (this.#closed) return;
    const there = lstatIdentitySync(this.#path);
    const seen = there ? `${there.dev}:${there.ino}` : '';
    if (seen === this.#lastSeen) return;
    this.#lastSeen = seen;
    if (seen !== this.#own) this.onReplaced();
  }

  /** Watches the directory that now has the name: a watch belongs to the one it was made for. */
  #watch(): void {
    this.#stop();
    const directory = dirname(this.#path);
    try {
      this.#watcher = watch(directory, { persistent: false }, (_event, name) => this.#onEvent(name));
      this.#watcher.on('error', (error) => this.#fallBack(error));
    } catch (error) {
      this.#fallBack(error as Error);
    }
  }

  #onEvent(name: string | null): void {
    // The directory's own name stands for its removal or renaming; null for what the system can't tell.
    if (name === basename(dirname(this.#path))) this.#watch();
    else if (name !== basename(this.#path) && name !== null) return;
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined;
      this.#look();
    }, SETTLE_MS).unref();
  }

  #fallBack(error: NodeJS.ErrnoException): void {
    this.#stop();
    this.log(
      `can't watch ${dirname(this.#path)} (${error.code}): looking every few seconds instead`,
      'debug',
    );
    this.#fallback = setInterval(() => this.#look(), FALLBACK_INTERVAL_MS).unref();
  }

  #stop(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#fallback);
  }
}
