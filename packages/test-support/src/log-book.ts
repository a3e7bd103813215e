import type { LogCallback, LogLevel } from '@gpg-bridge/core/log';

/** Keeps what was logged, and tells when something was. */
export class LogBook {
  readonly entries: { message: string; level: LogLevel }[] = [];
  readonly #waiting = new Set<() => void>();

  readonly log: LogCallback = (message, level) => {
    this.entries.push({ message, level });
    for (const look of this.#waiting) look();
  };

  /** All messages, a line each. */
  get text(): string {
    return this.entries.map(({ message }) => message).join('\n');
  }

  /** Sessions of an AgentProxy that are open, as its debug lines tell. */
  get openSessions(): number {
    const count = (pattern: RegExp) => this.entries.filter(({ message }) => pattern.test(message)).length;
    return count(/^session \S+: connecting$/) - count(/^session \S+: ended$/);
  }

  /** Resolves when `count` messages match. */
  said(pattern: RegExp, count = 1): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (this.entries.filter(({ message }) => pattern.test(message)).length < count) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }
}
