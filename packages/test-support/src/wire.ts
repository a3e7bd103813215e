/**
 * The wire protocol written a second time, for tests alone and without the code they test: a frame is
 * uint32 length (type, stream and payload), uint8 type, uint32 stream, payload; all big-endian.
 */
export const DATA = 1;
export const OPEN = 2;
export const CLOSE = 3;
export const PUBKEY = 4;
export const READY = 5;
export const ERROR = 6;
export const WINDOW = 7;
export const EOF = 8;
export const PING = 9;
export const PONG = 10;
export const CALL = 11;
export const RESULT = 12;
export const CHANGED = 13;
export const TABLE = 14;
export const TOLD = 15;
export const TURN = 16;

/** One frame. */
export interface WireFrame {
  type: number;
  stream: number;
  payload: Buffer;
}

/** The bytes of a frame. */
export function wireFrame(type: number, stream: number, payload: Buffer | string = ''): Buffer {
  const body = Buffer.from(payload as string);
  const head = Buffer.alloc(9);
  head.writeUInt32BE(5 + body.length, 0);
  head.writeUInt8(type, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** A uint32 as four bytes. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Cuts bytes into frames, the simplest way. */
export class WireReader {
  #chunks: Buffer[] = [];
  #size = 0;

  /** The frames that are whole after these bytes. */
  push(chunk: Buffer): WireFrame[] {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    const frames: WireFrame[] = [];
    while (this.#size >= 4) {
      if (this.#chunks[0]!.length < 4) this.#chunks = [Buffer.concat(this.#chunks)];
      const length = this.#chunks[0]!.readUInt32BE(0);
      if (length < 5 || length > 1_048_576) throw new Error(`a frame of length ${length}`);
      if (this.#size < 4 + length) break;
      const bytes = Buffer.concat(this.#chunks);
      frames.push({
        type: bytes.readUInt8(4),
        stream: bytes.readUInt32BE(5),
        payload: Buffer.from(bytes.subarray(9, 4 + length)),
      });
      this.#chunks = [bytes.subarray(4 + length)];
      this.#size -= 4 + length;
    }
    return frames;
  }
}
