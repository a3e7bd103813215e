import { BridgeError } from '../errors.ts';
import { FRAME, HEADER_BYTES, MAX_LENGTH, MIN_LENGTH } from './frame.ts';

/** Who takes the frames. The decoder calls it in the order of the bytes, and does no I/O itself. */
export interface FrameSink {
  /**
   * A header came in, its length is valid, nothing of its payload is buffered yet. False skips the
   * payload; what is thrown ends the decoding.
   */
  header(type: number, stream: number, payloadLength: number): boolean;
  /** A piece of the DATA payload of the last header, as it arrived: a view of the chunk, not a copy. */
  data(piece: Buffer): void;
  /** Any other frame that `header` wanted, whole; maybe a view of the chunk, too. */
  frame(type: number, stream: number, payload: Buffer): void;
}

const EMPTY = Buffer.alloc(0);

/** Cuts a byte stream into frames, whatever its chunks; holds at most one frame that is not DATA. */
export class FrameDecoder {
  readonly #sink: FrameSink;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerFilled = 0;
  #type = 0;
  #stream = 0;
  #remaining = 0;
  #wanted = false;
  #partial: Buffer | undefined;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Bytes held back until their frame is whole. */
  get buffered(): number {
    return this.#headerFilled + (this.#partial ? this.#partial.length - this.#remaining : 0);
  }

  /** Takes the next bytes; throws FRAME_LENGTH for a length out of range, or what the sink throws. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#remaining > 0 ? this.#readPayload(chunk, at) : this.#readHeader(chunk, at);
    }
  }

  #readHeader(chunk: Buffer, at: number): number {
    if (this.#headerFilled === 0 && chunk.length - at >= HEADER_BYTES) {
      this.#begin(chunk, at);
      return at + HEADER_BYTES;
    }
    const copied = chunk.copy(this.#header, this.#headerFilled, at);
    this.#headerFilled += copied;
    // A wrong length is known from four bytes; whoever sent it may never send the ninth.
    if (this.#headerFilled >= 4) checkLength(this.#header.readUInt32BE(0));
    if (this.#headerFilled === HEADER_BYTES) {
      this.#headerFilled = 0;
      this.#begin(this.#header, 0);
    }
    return at + copied;
  }

  #begin(bytes: Buffer, at: number): void {
    const length = bytes.readUInt32BE(at);
    checkLength(length);
    this.#type = bytes.readUInt8(at + 4);
    this.#stream = bytes.readUInt32BE(at + 5);
    this.#remaining = length - MIN_LENGTH;
    this.#wanted = this.#sink.header(this.#type, this.#stream, this.#remaining);
    if (this.#remaining === 0 && this.#wanted && this.#type !== FRAME.DATA) this.#deliver(EMPTY);
  }

  #readPayload(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#remaining);
    const piece = at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end);
    if (!this.#wanted) {
      this.#remaining -= piece.length;
    } else if (this.#type === FRAME.DATA) {
      this.#remaining -= piece.length;
      this.#sink.data(piece);
    } else {
      this.#collect(piece);
    }
    return end;
  }

  #collect(piece: Buffer): void {
    if (!this.#partial) {
      if (piece.length === this.#remaining) {
        this.#remaining = 0;
        this.#deliver(piece);
        return;
      }
      this.#partial = Buffer.allocUnsafe(this.#remaining);
    }
    piece.copy(this.#partial, this.#partial.length - this.#remaining);
    this.#remaining -= piece.length;
    if (this.#remaining > 0) return;
    const whole = this.#partial;
    this.#partial = undefined;
    this.#deliver(whole);
  }

  #deliver(payload: Buffer): void {
    this.#sink.frame(this.#type, this.#stream, payload);
  }
}

function checkLength(length: number): void {
  if (length >= MIN_LENGTH && length <= MAX_LENGTH) return;
  throw new BridgeError('FRAME_LENGTH', {
    what: 'the bridge broke',
    why: `the other end announced a frame of ${length} bytes, and only ${MIN_LENGTH} to ${MAX_LENGTH} are possible`,
    fix: 'Start the bridge again; something else may be writing to its stream.',
  });
}
