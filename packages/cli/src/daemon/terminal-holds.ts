import { rmSync } from 'node:fs';
import type net from 'node:net';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import type { LogCallback } from '@gpg-bridge/core/log';
import { terminalSockets } from './state-dir.ts';
import { RELEASED } from './terminal-server.ts';

/** How long a use of a key waits for a terminal; one whose process is stopped never answers. */
const ANSWER_MS = 2_000;
/** The same for one that did not answer the last time. */
const LATE_ANSWER_MS = 100;

/**
 * Keeps every `exec` and `shell` of this user from reading its terminal. In which of them a prompt will show, if it does
 * in any, only the agent knows.
 */
export class TerminalHolds {
  /** Those that did not answer in time: until they do they are hardly waited for. */
  readonly #late = new Set<string>();
  readonly #held = new Set<readonly Asked[]>();
  #whenReleased: (() => void)[] = [];

  constructor(
    private readonly directory: string,
    private readonly log: LogCallback,
  ) {}

  /** Resolves when none of them reads, to how to let them go on; undefined if there is none. */
  hold(): Promise<() => void> | undefined {
    const paths = terminalSockets(this.directory);
    if (paths.length === 0) return undefined;
    const asked = paths.map((path) => this.#ask(path));
    this.#held.add(asked);
    const release = () => {
      if (!this.#held.delete(asked)) return;
      // A stopped process never closes its end; that must not keep this one.
      for (const { connection } of asked) connection.unref().end(RELEASED);
      if (this.#held.size === 0) for (const tell of this.#whenReleased.splice(0)) tell();
    };
    return Promise.all(asked.map(({ held }) => held)).then(() => release);
  }

  /**
   * Resolves when no terminal is held. Until then the process must not end: a terminal whose hold is lost without a
   * release ends its command.
   */
  released(): Promise<void> {
    if (this.#held.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenReleased.push(resolve));
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
    return { connection, held };
  }
}

/** A terminal that is held, or about to be. */
interface Asked {
  connection: net.Socket;
  /** Resolves when nothing is read there. */
  held: Promise<void>;
}
