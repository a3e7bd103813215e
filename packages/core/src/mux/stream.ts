import { Duplex } from 'node:stream';
import type { BridgeError } from '../errors.ts';
import { ByteQueue } from './byte-queue.ts';
import { INITIAL_CREDIT, MAX_DATA } from './frame.ts';

/** What a stream needs of its muxer. */
export interface StreamPort {
  /** Whether the other end waits for credit, and so this end sends no more than it was given. */
  readonly creditBinds: boolean;
  /** Whether the carrier takes data now; if not, the stream's `flush` is called when it does. */
  admits(stream: MuxStream): boolean;
  /** Sends bytes of this stream. */
  sendData(stream: MuxStream, bytes: Buffer): void;
  /** Gives the other end credit, if both ends use it; says whether it was given. */
  sendCredit(stream: MuxStream, bytes: number): boolean;
  /** Sends CLOSE; the id is not open any more. */
  sendClose(stream: MuxStream): void;
  /** The stream is closed and holds nothing that was received. */
  released(stream: MuxStream): void;
}

/** A consumer that takes a stream's bytes directly, past Node's buffers; see `MuxStream.attach`. */
export interface StreamConsumer {
  /** Takes bytes, and copies what it keeps; false holds further ones back until `resumeDelivery`. */
  take(bytes: Buffer): boolean;
  /** Everything that `send` kept back has left. */
  drained(): void;
  /** Everything the other end sent has been taken, and nothing more can be sent. Comes once. */
  ended(): void;
}

/** Credit goes back in batches of half a window: small round trips need no frame for it. */
const CREDIT_BATCH = INITIAL_CREDIT / 2;

/**
 * One client's connection across the bridge: an ordinary Duplex, or, with `attach` and `send`, a channel
 * without Node's buffers between. It emits no error of its own: a stream that the bridge had to give up
 * ends, and `failure` says why.
 */
export class MuxStream extends Duplex {
  readonly #port: StreamPort;
  #failure: BridgeError | undefined;
  /** Bytes this end may still send; it goes below zero where credit does not bind. */
  #sendCredit = INITIAL_CREDIT;
  /** Bytes the other end may still send; the same. */
  #receiveCredit = INITIAL_CREDIT;
  /** Received and not taken. Idle streams are many: a queue exists only while it holds something. */
  #inbound: ByteQueue | undefined;
  /** Waits for credit or for the carrier. */
  #outbound: ByteQueue | undefined;
  #consumer: StreamConsumer | undefined;
  /** Whoever reads asked for bytes and has not been full since. */
  #wanted = false;
  /** No CLOSE has gone either way. */
  #open = true;
  /** CLOSE follows the last outbound byte. */
  #finishing = false;
  #writeDone: (() => void) | undefined;

  constructor(
    readonly id: number,
    readonly socketType: string,
    port: StreamPort,
  ) {
    // One unread piece fills Node's buffer; everything else waits in the queue here, where it is counted.
    super({ readableHighWaterMark: 1, allowHalfOpen: false });
    this.#port = port;
  }

  /** Why the bridge ended this stream, if it had to. */
  get failure(): BridgeError | undefined {
    return this.#failure;
  }

  /** Whether neither end has closed it. */
  get open(): boolean {
    return this.#open;
  }

  /** Received bytes that nobody has taken yet. */
  get undelivered(): number {
    return (this.#inbound?.length ?? 0) + this.readableLength;
  }

  /** Bytes that wait to be sent. */
  get unsent(): number {
    return (this.#outbound?.length ?? 0) + this.writableLength;
  }

  /** Bytes the other end may still send. */
  get receiveCredit(): number {
    return this.#receiveCredit;
  }

  /** Hands every received byte to `consumer` from now on, instead of the Duplex's reading side. */
  attach(consumer: StreamConsumer): void {
    this.#consumer = consumer;
    this.#wanted = true;
    // What somebody made the Duplex read before comes first.
    while (this.readableLength > 0) this.#wanted = consumer.take(this.read() as Buffer);
    this.#deliver();
  }

  /** Delivers what waits, to a consumer that can take again. */
  resumeDelivery(): void {
    this.#wanted = true;
    this.#deliver();
  }

  /**
   * Sends bytes past the Duplex's writing side, which are the caller's again afterwards; on a closed stream
   * they are dropped. False: some of them wait, and the caller holds back until its consumer's `drained`.
   */
  send(bytes: Buffer): boolean {
    if (!this.#open) return true;
    let at = 0;
    if (!this.#outbound) {
      for (let room: number; at < bytes.length && (room = this.#room()) > 0; ) {
        const size = Math.min(bytes.length - at, room);
        this.#emitData(size === bytes.length ? bytes : bytes.subarray(at, at + size));
        at += size;
      }
      if (at === bytes.length) return true;
      this.#outbound = new ByteQueue();
    }
    this.#outbound.push(at === 0 ? bytes : bytes.subarray(at));
    return false;
  }

  /** Closes the stream once everything before has left. */
  finish(): void {
    this.#finishing = true;
    if (!this.#outbound) this.#close();
  }

  /** For the muxer: bytes came in, and they are within what is allowed. */
  receive(bytes: Buffer): void {
    this.#receiveCredit -= bytes.length;
    if (this.#wanted && !this.#inbound) this.#wanted = this.#pass(bytes);
    else (this.#inbound ??= new ByteQueue()).push(bytes);
    this.returnCredit();
  }

  /** For the muxer: the other end gives credit. */
  grant(bytes: number): void {
    // Kept in range: a sender is held back by the carrier long before this much.
    this.#sendCredit = Math.min(this.#sendCredit + bytes, 0xffff_ffff);
    this.flush();
  }

  /** For the muxer: sends what waits, as far as credit and carrier allow. */
  flush(): void {
    if (!this.#outbound) return;
    for (let room: number; this.#outbound.length > 0; ) {
      if ((room = this.#room()) <= 0) return;
      this.#emitData(this.#outbound.take(room)!);
    }
    this.#outbound = undefined;
    this.#sayDrained();
    if (this.#finishing && !this.#outbound) this.#close();
  }

  /** For the muxer: returns credit for what was taken, when it is enough to be worth a frame. */
  returnCredit(): void {
    if (!this.#open) return;
    const due = INITIAL_CREDIT - this.#receiveCredit - this.undelivered;
    if (due >= CREDIT_BATCH && this.#port.sendCredit(this, due)) this.#receiveCredit += due;
  }

  /** For the muxer: CLOSE came. What was received is delivered, what waits to be sent is dropped. */
  closedByPeer(failure?: BridgeError): void {
    if (!this.#open) return;
    this.#failure = failure;
    this.#endBothWays();
  }

  /** For the muxer: drops what both directions hold, and closes. */
  giveUp(failure: BridgeError): void {
    this.#failure = failure;
    this.#inbound = undefined;
    this.#close();
  }

  override _read(): void {
    if (this.#consumer) return;
    this.#wanted = true;
    this.#deliver();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.send(chunk)) done();
    else this.#writeDone = done;
  }

  override _final(done: () => void): void {
    this.finish();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inbound = undefined;
    this.#close();
    done(error);
  }

  /** How many bytes the next frame may carry. */
  #room(): number {
    const limit = this.#port.creditBinds ? Math.min(MAX_DATA, this.#sendCredit) : MAX_DATA;
    return limit > 0 && this.#port.admits(this) ? limit : 0;
  }

  #emitData(bytes: Buffer): void {
    this.#sendCredit -= bytes.length;
    this.#port.sendData(this, bytes);
  }

  #pass(bytes: Buffer): boolean {
    return this.#consumer ? this.#consumer.take(bytes) : this.push(Buffer.from(bytes));
  }

  #deliver(): void {
    while (this.#wanted && this.#inbound) {
      const piece = this.#inbound.take();
      if (this.#inbound.length === 0) this.#inbound = undefined;
      if (piece) this.#wanted = this.#pass(piece);
    }
    if (this.#open) this.returnCredit();
    else this.#endInbound();
  }

  #close(): void {
    if (!this.#open) return;
    this.#port.sendClose(this);
    this.#endBothWays();
  }

  #endBothWays(): void {
    this.#open = false;
    this.#outbound = undefined;
    this.#sayDrained();
    this.#endInbound();
  }

  #endInbound(): void {
    if (this.#inbound) return;
    this.#port.released(this);
    const consumer = this.#consumer;
    if (!consumer) {
      if (!this.destroyed && !this.readableEnded) this.push(null);
      return;
    }
    this.#consumer = undefined;
    consumer.ended();
    // The Duplex was not used, so there is nothing of it to be destroyed.
    this.emit('close');
  }

  #sayDrained(): void {
    const done = this.#writeDone;
    this.#writeDone = undefined;
    if (done) done();
    else this.#consumer?.drained();
  }
}
