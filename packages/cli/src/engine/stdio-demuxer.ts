/**
 * An exec stream without a terminal carries standard output and error in turns:
 *
 *      0      1         4           8
 *     +------+---------+-----------+----------- - - -
 *     | type | 0, 0, 0 | length    | payload
 *     +------+---------+-----------+----------- - - -
 *     type: 1 standard output, 2 standard error
 *     length: uint32 big-endian, counts the payload
 */
const HEADER_LENGTH = 8;
const LENGTH_OFFSET = 4;

const CHANNELS = new Map<number, StdioChannel>([
  [1, 'stdout'],
  [2, 'stderr'],
]);

/** Where a piece of a demultiplexed stream belongs. */
export type StdioChannel = 'stdout' | 'stderr';

/**
 * Takes such a stream apart as it arrives: a payload is handed on in the pieces it came in, as slices of
 * the chunks that were pushed. No payload is waited for or copied.
 */
export class StdioDemuxer {
  private readonly header = Buffer.alloc(HEADER_LENGTH);
  private headerFilled = 0;
  private channel: StdioChannel = 'stdout';
  private payloadLeft = 0;

  constructor(private readonly onData: (channel: StdioChannel, piece: Buffer) => void) {}

  /** Takes the next bytes; throws when they are no such stream. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.payloadLeft > 0) at = this.takePayload(chunk, at);
      else if (this.headerFilled === 0 && chunk.length - at >= HEADER_LENGTH) {
        this.readHeader(chunk, at);
        at += HEADER_LENGTH;
      } else at = this.fillHeader(chunk, at);
    }
  }

  private takePayload(chunk: Buffer, from: number): number {
    const to = Math.min(chunk.length, from + this.payloadLeft);
    this.payloadLeft -= to - from;
    this.onData(this.channel, chunk.subarray(from, to));
    return to;
  }

  private fillHeader(chunk: Buffer, from: number): number {
    const copied = chunk.copy(this.header, this.headerFilled, from);
    this.headerFilled += copied;
    if (this.headerFilled === HEADER_LENGTH) {
      this.headerFilled = 0;
      this.readHeader(this.header, 0);
    }
    return from + copied;
  }

  private readHeader(bytes: Buffer, at: number): void {
    const type = bytes[at]!;
    const channel = CHANNELS.get(type);
    if (!channel) throw new RangeError(`stream type ${type} in an exec stream`);
    this.channel = channel;
    this.payloadLeft = bytes.readUInt32BE(at + LENGTH_OFFSET);
  }
}
