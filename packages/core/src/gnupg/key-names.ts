import type { ListedKey } from './key-listing.ts';

/** A key that nobody knows does not make every listing a new one. */
const FRESH_MS = 5_000;

/** Whose keys there are, by keygrip; listed when a grip is asked for that is not known yet. */
export class KeyNames {
  #keys: Promise<ListedKey[]> | undefined;
  #listedAt = 0;

  constructor(private readonly list: () => Promise<ListedKey[]>) {}

  /** The user ID of a key; undefined for one that nobody knows. */
  async nameOf(keygrip: string): Promise<string | undefined> {
    const known = find(await (this.#keys ?? []), keygrip);
    if (known) return known;
    if (!this.#keys || Date.now() - this.#listedAt > FRESH_MS) {
      this.#listedAt = Date.now();
      this.#keys = this.list().catch(() => []);
    }
    return find(await this.#keys, keygrip);
  }
}

function find(keys: readonly ListedKey[], keygrip: string): string | undefined {
  return keys.find((key) => key.keygrips.includes(keygrip))?.userId;
}
