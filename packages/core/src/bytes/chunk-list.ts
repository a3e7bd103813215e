/** Reads bytes, each once, until it has found the end of what it looks for. */
export interface ByteReader {
  /**
   * Looks at `chunk` from index `from` on. Returns the index behind the last byte that belongs to what
   * it reads, or -1 when the chunk was used up and more is wanted.
   */
  read(chunk: Buffer, from: number): number;
}

/** A chunk smaller than this may be gathered with its neighbours. */
const SMALL_CHUNK_BYTES = 2048;
/** So many chunks are kept as they came: a usual message is never copied. */
const CHUNKS_KEPT_AS_THEY_ARE = 16;
/** The size of a block that small chunks are gathered in. */
const GATHER_BYTES = 64 * 1024;

/**
 * Bytes in the order they came, with a place up to which they were read. No byte is read twice. Chunks
 * are kept, not copied, unless there are many small ones: a Buffer object costs more than 100 bytes
 * whatever it holds, so those are gathered, and memory stays near `length`.
 */
export class ChunkList {
  readonly #chunks: Buffer[] = [];
  /** Index of the first chunk that is still held; a chunk before it is released. */
  #head = 0;
  /** Bytes of the first chunk that were taken already. */
  #headOffset = 0;
  #length = 0;
  /** The reader's place: a chunk's index, an offset in it, and its distance from the front. */
  #readChunk = 0;
  #readOffset = 0;
  #scanned = 0;
  /** The block that the last chunk is gathered in, and how much of it is used. */
  #gather: Buffer | undefined;
  #gathered = 0;

  /** Bytes held. */
  get length(): number {
    return this.#length;
  }

  /** Bytes, from the front, that a reader was shown already. */
  get scanned(): number {
    return this.#scanned;
  }

  /** Adds a chunk at the end; the caller must not change its bytes any more. */
  push(chunk: Buffer): void {
    const size = chunk.length;
    if (size === 0) return;
    this.#length += size;
    if (size < SMALL_CHUNK_BYTES && this.#chunks.length - this.#head >= CHUNKS_KEPT_AS_THEY_ARE) {
      this.#gatherChunk(chunk, size);
    } else {
      this.#gather = undefined;
      this.#chunks.push(chunk);
    }
  }

  /**
   * Shows the reader the bytes no reader has seen yet, until it finds its end. Returns false when the
   * bytes ran out first; the next call goes on behind them.
   */
  scan(reader: ByteReader): boolean {
    const chunks = this.#chunks;
    while (this.#readChunk < chunks.length) {
      const chunk = chunks[this.#readChunk]!;
      const from = this.#readOffset;
      if (from < chunk.length) {
        const end = reader.read(chunk, from);
        const stop = end < 0 ? chunk.length : end;
        this.#scanned += stop - from;
        this.#readOffset = stop;
        if (end >= 0) return true;
      }
      // The last chunk may still grow while it is gathered, so the place stays at its end.
      if (this.#readChunk === chunks.length - 1) return false;
      this.#readChunk++;
      this.#readOffset = 0;
    }
    return false;
  }

  /** Removes `size` bytes from the front: a view when they lie in one chunk, one copy when they don't. */
  take(size: number): Buffer {
    if (size < 0 || size > this.#length) {
      throw new RangeError(`cannot take ${size} of ${this.#length} bytes`);
    }
    if (size === 0) return Buffer.alloc(0);
    const first = this.#chunks[this.#head]!;
    const start = this.#headOffset;
    const whole = start === 0 && size === first.length;
    const bytes = whole
      ? first
      : size <= first.length - start
        ? first.subarray(start, start + size)
        : this.#copy(size);
    this.#drop(size);
    return bytes;
  }

  /** Lets the next reader begin at the front again. */
  rewind(): void {
    this.#readChunk = this.#head;
    this.#readOffset = this.#headOffset;
    this.#scanned = 0;
  }

  /** Forgets everything. */
  clear(): void {
    this.#chunks.length = 0;
    this.#head = this.#headOffset = this.#length = 0;
    this.#readChunk = this.#readOffset = this.#scanned = 0;
    this.#gather = undefined;
  }

  #gatherChunk(chunk: Buffer, size: number): void {
    if (this.#gather === undefined || this.#gathered + size > GATHER_BYTES) {
      this.#gather = Buffer.allocUnsafeSlow(GATHER_BYTES);
      this.#gathered = 0;
      this.#chunks.push(this.#gather);
    }
    chunk.copy(this.#gather, this.#gathered);
    this.#gathered += size;
    this.#chunks[this.#chunks.length - 1] = this.#gather.subarray(0, this.#gathered);
  }

  #copy(size: number): Buffer {
    const bytes = Buffer.allocUnsafe(size);
    let filled = 0;
    let start = this.#headOffset;
    for (let index = this.#head; filled < size; index++) {
      const chunk = this.#chunks[index]!;
      filled += chunk.copy(bytes, filled, start, Math.min(chunk.length, start + size - filled));
      start = 0;
    }
    return bytes;
  }

  #drop(size: number): void {
    if (size === this.#length) {
      this.clear();
      return;
    }
    this.#length -= size;
    const chunks = this.#chunks;
    let left = size;
    while (left > 0) {
      const rest = chunks[this.#head]!.length - this.#headOffset;
      if (left < rest) {
        this.#headOffset += left;
        break;
      }
      left -= rest;
      chunks[this.#head++] = RELEASED;
      this.#headOffset = 0;
    }
    this.#scanned = Math.max(0, this.#scanned - size);
    if (this.#scanned === 0) this.rewind();
    this.#forgetReleased();
  }

  /** Shortens the array once half of it is released: each entry is moved at most once on average. */
  #forgetReleased(): void {
    if (this.#head < 32 || this.#head * 2 < this.#chunks.length) return;
    this.#chunks.splice(0, this.#head);
    this.#readChunk -= this.#head;
    this.#head = 0;
  }
}

/** Stands where a chunk was, so that its memory can go before the array is shortened. */
const RELEASED = Buffer.alloc(0);
