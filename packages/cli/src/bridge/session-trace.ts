import type { LogCallback } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';

/**
 * Tells a session's life in the log that is kept with --verbose: by the number of its stream, which is the same at
 * both ends of the wire; sizes, times and command words, never what was sent.
 */
export class SessionTrace {
  readonly #startedAt = performance.now();
  #toHost = 0;
  #toTarget = 0;

  constructor(
    private readonly id: number,
    type: SocketType,
    private readonly log: LogCallback,
  ) {
    log(`session ${id}: opened by a client of ${type}`, 'debug');
  }

  /** Bytes came from the target, or from the agent. */
  count(direction: 'toHost' | 'toTarget', bytes: Buffer): void {
    if (direction === 'toHost') this.#toHost += bytes.length;
    else this.#toTarget += bytes.length;
  }

  /** It has got to another state. */
  reached(state: string): void {
    this.log(`session ${this.id}: ${state} after ${this.#elapsed()} ms`, 'debug');
  }

  /** A command was answered. */
  answered({ command, outcome, durationMs }: { command: string; outcome: string; durationMs: number }): void {
    this.log(`session ${this.id}: ${command} ${outcome}, ${durationMs.toFixed(1)} ms`, 'trace');
  }

  /** It is over. */
  ended(): void {
    const bytes = `${this.#toHost} bytes to the host, ${this.#toTarget} back`;
    this.log(`session ${this.id}: ended after ${this.#elapsed()} ms, ${bytes}`, 'debug');
  }

  #elapsed(): string {
    return (performance.now() - this.#startedAt).toFixed(1);
  }
}
