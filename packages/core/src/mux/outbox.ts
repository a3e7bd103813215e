import type { Writable } from 'node:stream';
import { writeBothNow, writeNow } from '../io/write-now.ts';
import { type FrameTrace, HEADER_BYTES, MAX_PAYLOAD, writeHeader } from './frame.ts';

/** A payload up to this size is copied behind its header: that costs less than one more vector. */
const COPY_BYTES = 4_096;
/** What leaves in one write is collected here, apart from large payloads. */
const BATCH_BYTES = 16_384;
/** With this many bytes unsent the carrier counts as busy, and no stream adds to them. */
const BUSY_BYTES = 65_536;
const NO_PAYLOAD: Buffer = Buffer.alloc(0);

/** What the way out asks its muxer. */
export interface OutboxOwner {
  /** Whether several streams may have something to send in this turn of the event loop. */
  readonly crowded: boolean;
  /** A carrier that was busy takes more. */
  onRoom(): void;
}

/**
 * The way out to the carrier. Small frames are copied together and leave in one write, the payload of a
 * large one leaves from where it is, in one vectored write with its header. No payload is kept: it may be
 * a view of a buffer that is about to be read into again.
 */
export class Outbox {
  readonly #output: Writable;
  readonly #owner: OutboxOwner;
  readonly #trace: FrameTrace | undefined;
  readonly #batch = Buffer.allocUnsafeSlow(BATCH_BYTES);
  #filled = 0;
  #scheduled = false;
  #isHeld = false;
  #busy = false;
  #roomWaiters: (() => void)[] = [];

  constructor(output: Writable, owner: OutboxOwner, trace?: FrameTrace) {
    this.#output = output;
    this.#owner = owner;
    this.#trace = trace;
  }

  /** Whether streams have to wait before they add data. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Bytes that the carrier has not taken yet. */
  get buffered(): number {
    return this.#filled + this.#output.writableLength;
  }

  /** Adds a frame; it leaves in this turn of the event loop. */
  add(type: number, stream: number, payload = NO_PAYLOAD): void {
    const { length } = payload;
    if (length > MAX_PAYLOAD) throw new RangeError(`a payload of ${length} bytes has no frame`);
    const copied = length <= COPY_BYTES ? length : 0;
    if (this.#filled + HEADER_BYTES + copied > BATCH_BYTES) this.#flush();
    this.#trace?.('>', type, stream, length);
    writeHeader(this.#batch, this.#filled, type, stream, length);
    this.#filled += HEADER_BYTES;
    if (copied < length) {
      this.#flush(payload);
    } else {
      payload.copy(this.#batch, this.#filled);
      this.#filled += length;
      this.#schedule();
    }
    if (this.buffered >= BUSY_BYTES) this.#busy = true;
  }

  /** Keeps frames back until `release`, as far as they fit into one write. */
  hold(): void {
    this.#isHeld = true;
  }

  /** Sends what was kept back. */
  release(): void {
    this.#isHeld = false;
    if (this.#filled > 0) this.#schedule();
  }

  /** Resolves when the carrier is not busy, or the bridge has ended. */
  async room(): Promise<void> {
    while (this.#busy) await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
  }

  /** Writes out what there is, so that the output can be ended. */
  stop(): void {
    this.#flush();
    this.#busy = false;
    this.#sayRoom();
  }

  /**
   * A lone stream's frame leaves at once; those of many when all sockets that were readable have been
   * read, which at fifty streams saves a fifth of the time.
   */
  #schedule(): void {
    if (this.#scheduled || this.#isHeld) return;
    // A carrier that is behind takes nothing sooner, and each write that waits costs far more than a small frame.
    if (!this.#owner.crowded && this.#output.writableLength === 0) {
      this.#flush();
      return;
    }
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(payload?: Buffer): void {
    const batch = this.#batch.subarray(0, this.#filled);
    this.#filled = 0;
    if (batch.length === 0 || !this.#output.writable) return;
    if (payload) writeBothNow(this.#output, batch, payload, this.#written);
    else writeNow(this.#output, batch, this.#written);
  }

  /** The callback of every write rather than `drain`, which depends on the carrier's high-water mark. */
  readonly #written = (): void => {
    if (!this.#busy || this.buffered >= BUSY_BYTES) return;
    this.#busy = false;
    this.#sayRoom();
    this.#owner.onRoom();
  };

  #sayRoom(): void {
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
  }
}
