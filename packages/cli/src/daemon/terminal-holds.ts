import { rmSync } from 'node:fs';
import net from 'node:net';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import type { LogCallback } from '@gpg-bridge/core/log';
import { promptSocket, terminalSockets } from './state-dir.ts';
import { HELD, RELEASED } from './terminal-server.ts';

/** How long a use of a key waits for a terminal; one whose process is stopped never answers. */
const ANSWER_MS = 2_000;
/** The same for one that did not answer the last time. */
const LATE_ANSWER_MS = 100;
/** Nobody types for a prompt in less time, and most uses of keys are over. */
const PROMPTED_AFTER_MS = 20;

/**
 * Keeps every `exec` and `shell` of this user from reading its terminal. In which of them a prompt will show, if it does
 * in any, only the agent knows.
 */
export class TerminalHolds {
  /** Those that did not answer in time: until they do they are hardly waited for. */
  readonly #late = new Set<string>();
  readonly #held = new Set<Asked[]>();
  readonly #waiting = new Set<net.Socket>();
  #announcing: NodeJS.Timeout | undefined;
  #endAnnouncement = () => {};
  #whenReleased: (() => void)[] = [];

  constructor(
    private readonly directory: string,
    private readonly log: LogCallback,
  ) {}

  /** Resolves when none of them reads, to how to let them go on; returns that at once if there is none. */
  hold(): Promise<() => void> | (() => void) {
    const asked = terminalSockets(this.directory).map((path) => this.#ask(path));
    if (this.#held.size === 0)
      this.#announcing = setTimeout(() => this.#announce(), PROMPTED_AFTER_MS).unref();
    this.#held.add(asked);
    const release = () => {
      if (!this.#held.delete(asked)) return;
      // A stopped process never closes its end; that must not keep this one.
      for (const { connection } of asked) connection.unref().end(RELEASED);
      if (this.#held.size === 0) {
        clearTimeout(this.#announcing);
        this.#endAnnouncement();
      }
      if (!this.#isAwaited) for (const tell of this.#whenReleased.splice(0)) tell();
    };
    return asked.length === 0 ? release : Promise.all(asked.map(({ held }) => held)).then(() => release);
  }

  /**
   * Resolves when no terminal is held. Until then the process must not end: a terminal whose hold is lost without a
   * release ends its command.
   */
  released(): Promise<void> {
    if (!this.#isAwaited) return Promise.resolve();
    return new Promise((resolve) => this.#whenReleased.push(resolve));
  }

  /** Whether a terminal is held, or somebody waits to read one. */
  get #isAwaited(): boolean {
    return this.#waiting.size > 0 || [...this.#held].some((asked) => asked.length > 0);
  }

  /** Has those wait that would read a terminal from now on, and holds the terminals of those that have just begun. */
  #announce(): void {
    if (process.platform === 'win32') return; // no terminal is held there
    const path = promptSocket(this.directory, process.pid);
    const server = net.createServer((reader) => {
      this.#waiting.add(reader);
      reader.on('error', () => {}); // 'close' follows
      reader.once('close', () => this.#waiting.delete(reader));
      reader.write(HELD); // one that hears nothing was not accepted any more
      reader.resume();
    });
    server.on('error', ({ message }) => {
      this.log(`a terminal may be read for a target that is entered while a key is used: ${message}`, 'warn');
    });
    const remove = () => rmSync(path, { force: true });
    remove();
    server.listen(path).unref();
    process.once('exit', remove);
    this.#endAnnouncement = () => {
      this.#endAnnouncement = () => {};
      process.off('exit', remove);
      remove();
      server.close();
      for (const reader of this.#waiting) reader.unref().end(RELEASED);
      this.#waiting.clear();
    };
    // Who made its own socket before it could see this one is not waiting.
    for (const asked of this.#held) {
      const known = new Set(asked.map(({ path }) => path));
      for (const path of terminalSockets(this.directory)) if (!known.has(path)) asked.push(this.#ask(path));
    }
  }

  #ask(path: string): Asked {
    const connection = connectLocal(path);
    const held = new Promise<void>((resolve) => {
      const isLate = this.#late.has(path);
      const giveUp = () => {
        if (!isLate) this.log('a terminal may be read for a target while a key is used', 'warn');
        this.#late.add(path);
        resolve();
      };
      const timer = setTimeout(giveUp, isLate ? LATE_ANSWER_MS : ANSWER_MS);
      connection.once('data', () => {
        this.#late.delete(path);
        clearTimeout(timer);
        resolve();
      });
      connection.on('error', ({ code }: NodeJS.ErrnoException) => {
        if (code === 'ECONNREFUSED') rmSync(path, { force: true }); // its process was killed
      });
      connection.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    return { path, connection, held };
  }
}

/** A terminal that is held, or about to be. */
interface Asked {
  path: string;
  connection: net.Socket;
  /** Resolves when nothing is read there. */
  held: Promise<void>;
}
