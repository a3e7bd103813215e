const FIRST_BLOCK_BYTES = 1_024;
const LARGEST_BLOCK_BYTES = 65_536;

/**
 * Bytes that wait for a slow consumer. Pieces are copied together, because each is a view of memory that
 * is read into again, or that it would keep whole: what the queue occupies stays within a small multiple
 * of what it holds, however the bytes arrive.
 */
export class ByteQueue {
  readonly #blocks: Buffer[] = [];
  /** The last block's memory, when it has room for more. */
  #tail: Buffer | undefined;
  #length = 0;

  /** Bytes that wait. */
  get length(): number {
    return this.#length;
  }

  /** Adds bytes at the end. */
  push(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#length += piece.length;
    let copied = 0;
    while (copied < piece.length) copied += this.#copyIntoTail(piece, copied);
  }

  #copyIntoTail(piece: Buffer, from: number): number {
    const last = this.#blocks.at(-1);
    if (!this.#tail || !last || last.length === this.#tail.length) {
      const size = this.#tail
        ? Math.min(LARGEST_BLOCK_BYTES, this.#tail.length * 2)
        : Math.min(LARGEST_BLOCK_BYTES, Math.max(FIRST_BLOCK_BYTES, piece.length - from));
      // Not from Node's shared pool, which a waiting block would keep alive.
      this.#tail = Buffer.allocUnsafeSlow(size);
      const copied = piece.copy(this.#tail, 0, from);
      this.#blocks.push(this.#tail.subarray(0, copied));
      return copied;
    }
    const copied = piece.copy(this.#tail, last.length, from);
    this.#blocks[this.#blocks.length - 1] = this.#tail.subarray(0, last.length + copied);
    return copied;
  }

  /** Removes the first bytes that lie together, at most `limit`; undefined when there are none. */
  take(limit = Number.POSITIVE_INFINITY): Buffer | undefined {
    const first = this.#blocks[0];
    if (!first) return undefined;
    // Its block is not written to any more: from here on the first view is somebody else's.
    if (this.#blocks.length === 1) this.#tail = undefined;
    if (first.length <= limit) {
      this.#blocks.shift();
      this.#length -= first.length;
      return first;
    }
    this.#blocks[0] = first.subarray(limit);
    this.#length -= limit;
    return first.subarray(0, limit);
  }
}
