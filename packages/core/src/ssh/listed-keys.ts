import { encodeIdentities, type Identity, type KeyChoice, parseIdentities } from './identities.ts';
import type { SshMessage } from './messages.ts';

/** A program lists and signs within this time; asking again costs a card's reader some of its own. */
const FRESH_MS = 1_000;

/** The keys that an agent listed last on one connection, and which of them are offered. */
export class ListedKeys {
  #all: readonly Identity[] = [];
  #offered: readonly Identity[] = [];
  #takenAt: number | undefined;

  constructor(
    private readonly isOffered: KeyChoice | undefined,
    private readonly now: () => number,
  ) {}

  /** Whether the agent listed a moment before: gpg-agent also signs with keys that it has stopped listing. */
  isFreshAt(time: number): boolean {
    const age = this.#takenAt === undefined ? -1 : time - this.#takenAt;
    return age >= 0 && age < FRESH_MS;
  }

  /** Takes the agent's answer to a list request and returns what the client may see; undefined if it is no list. */
  take(answer: SshMessage): SshMessage | undefined {
    const list = answer.copy();
    this.#takenAt = this.now();
    const all = parseIdentities(list);
    this.#all = all ?? [];
    this.#offered = this.isOffered ? this.#all.filter(this.isOffered) : this.#all;
    if (!all) return undefined;
    return this.#offered.length === all.length ? list : encodeIdentities(this.#offered);
  }

  /**
   * Two encodings of one key are two names for it, so only the very bytes that the agent listed count. What is offered
   * may have become less since.
   */
  find(blob: Buffer): Identity | undefined {
    return this.#offered.find((listed) => listed.blob.equals(blob) && this.isOffered?.(listed) !== false);
  }

  /** Whether the agent listed it, offered or not. */
  has(blob: Buffer): boolean {
    return this.#all.some((listed) => listed.blob.equals(blob));
  }
}
