import { encodeIdentities, type Identity, type KeyChoice, parseIdentities } from './identities.ts';
import type { SshMessage } from './messages.ts';

/** The keys that an agent listed last on one connection, without those that are not offered. */
export class ListedKeys {
  #offered: readonly Identity[] = [];

  constructor(private readonly isOffered: KeyChoice | undefined) {}

  /** Takes the agent's answer to a list request and returns what the client may see; undefined if it is no list. */
  take(answer: SshMessage): SshMessage | undefined {
    const list = answer.copy();
    const all = parseIdentities(list);
    this.#offered = this.isOffered ? (all ?? []).filter(this.isOffered) : (all ?? []);
    if (!all) return undefined;
    return this.#offered.length === all.length ? list : encodeIdentities(this.#offered);
  }

  /** Two encodings of one key are two names for it, so only the very bytes that the agent listed count. */
  find(blob: Buffer): Identity | undefined {
    return this.#offered.find((listed) => listed.blob.equals(blob));
  }
}
