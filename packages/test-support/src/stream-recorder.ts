import type { MuxStream, StreamConsumer } from '@gpg-bridge/core/mux/stream';

/** Takes what a stream has, and writes down what came in which order. */
export class StreamRecorder implements StreamConsumer {
  /** Every `take` as its number of bytes, and the other calls by their names. */
  readonly calls: (number | 'drained' | 'eof' | 'ended')[] = [];
  readonly #pieces: Buffer[] = [];

  /** `takes` says after each piece whether another one is wanted; all of them unless it is given. */
  constructor(
    stream: MuxStream,
    private readonly takes: (bytes: Buffer) => boolean = () => true,
  ) {
    stream.attach(this);
  }

  /** All bytes so far. */
  get bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  /** How many bytes so far. */
  get length(): number {
    return this.#pieces.reduce((sum, { length }) => sum + length, 0);
  }

  /** The calls that were not `take`. */
  get ends(): string[] {
    return this.calls.filter((call) => typeof call === 'string');
  }

  /** Whether the stream is over. */
  get over(): boolean {
    return this.calls.includes('ended');
  }

  take(bytes: Buffer): boolean {
    this.#pieces.push(Buffer.from(bytes)); // a copy: they are the stream's again afterwards
    this.calls.push(bytes.length);
    return this.takes(bytes);
  }

  drained(): void {
    this.calls.push('drained');
  }

  eof(): void {
    this.calls.push('eof');
  }

  ended(): void {
    this.calls.push('ended');
  }
}

/** Everything that a stream delivers until it is over. */
export async function readStream(stream: MuxStream): Promise<Buffer> {
  const pieces: Buffer[] = [];
  await new Promise<void>((resolve) => {
    stream.attach({
      take(bytes) {
        pieces.push(Buffer.from(bytes));
        return true;
      },
      drained: () => {},
      eof: () => {},
      ended: resolve,
    });
  });
  return Buffer.concat(pieces);
}
