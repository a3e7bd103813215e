import type { BridgeError } from '../errors.ts';
import { ByteQueue } from './byte-queue.ts';
import { INITIAL_CREDIT, MAX_DATA } from './frame.ts';

/** What a stream needs of its muxer. */
export interface StreamPort {
  /** Whether the carrier takes data now; if not, the stream's `flush` is called when it does. */
  admits(stream: MuxStream): boolean;
  /** Sends bytes of this stream. */
  sendData(stream: MuxStream, bytes: Buffer): void;
  /** Gives the other end credit. */
  sendCredit(stream: MuxStream, bytes: number): void;
  /** Says that this end has sent its last byte. */
  sendEof(stream: MuxStream): void;
  /** Sends CLOSE; the id is not open any more. */
  sendClose(stream: MuxStream): void;
  /** Sends a note about this stream: TOLD or TURN, whichever this end sends. */
  sendNote(stream: MuxStream, payload: Buffer): void;
  /** What is sent from now on leaves with `release`, in one write if it fits. */
  hold(): void;
  release(): void;
  /** The stream holds so many received bytes more, or fewer. */
  heldChanged(stream: MuxStream, difference: number): void;
}

/** Takes a stream's bytes; see `MuxStream.attach`. */
export interface StreamConsumer {
  /** Takes bytes, and copies what it keeps; false holds further ones back until `resumeDelivery`. */
  take(bytes: Buffer): boolean;
  /** Everything that `send` kept back has left. */
  drained(): void;
  /** The other end has sent its last byte, and it was taken; this end can still send. */
  eof(): void;
  /** Everything the other end sent has been taken, and nothing more can be sent. Comes once. */
  ended(): void;
  /** Whether it has no use for what it has not taken when the stream closes: then it is told at once. */
  readonly dropsAtClose?: boolean;
}

/** Notes that nobody has taken; of more the last ones are kept. */
const MAX_NOTES = 16;

/** Credit goes back in batches of half a window: small round trips need no frame for it. */
const CREDIT_BATCH = INITIAL_CREDIT / 2;

/**
 * One client's connection across the bridge. It has no error of its own: a stream that the bridge had to
 * give up ends, and `failure` says why.
 */
export class MuxStream {
  readonly #port: StreamPort;
  #failure: BridgeError | undefined;
  /** Bytes this end may still send. */
  #sendCredit = INITIAL_CREDIT;
  /** Bytes the other end may still send. */
  #receiveCredit = INITIAL_CREDIT;
  /** Received and not taken. Idle streams are many: a queue exists only while it holds something. */
  #inbound: ByteQueue | undefined;
  /** Waits for credit or for the carrier. */
  #outbound: ByteQueue | undefined;
  #consumer: StreamConsumer | undefined;
  #onAbandoned: (() => void) | undefined;
  /** The consumer can take bytes now. */
  #wanted = false;
  /** No CLOSE has gone either way. */
  #open = true;
  /** The other end has said EOF. */
  #eofReceived = false;
  #eofTold = false;
  /** What follows the last outbound byte. */
  #after: 'eof' | 'close' | undefined;
  /** Notes of the other end, in order. */
  #notes: Buffer[] | undefined;
  /** What they count for in what is held. */
  #noteBytes = 0;

  constructor(
    readonly id: number,
    readonly socketType: string,
    port: StreamPort,
    /** Whether the target's end has greeted the client itself. */
    readonly greeted = false,
  ) {
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
    return this.#inbound?.length ?? 0;
  }

  /** What it holds of the other end: bytes that nobody has taken, and notes that count. */
  get held(): number {
    return this.undelivered + this.#noteBytes;
  }

  /** Bytes that wait to be sent. */
  get unsent(): number {
    return this.#outbound?.length ?? 0;
  }

  /** Bytes the other end may still send. */
  get receiveCredit(): number {
    return this.#eofReceived ? 0 : this.#receiveCredit;
  }

  /** Hands every received byte to `consumer`, those that have come before first. */
  attach(consumer: StreamConsumer): void {
    this.#consumer = consumer;
    this.#onAbandoned = undefined;
    this.resumeDelivery();
  }

  /** Whether somebody takes its bytes. */
  get attached(): boolean {
    return this.#consumer !== undefined;
  }

  /** Calls back if the stream closes before anything is attached. */
  onAbandoned(callback: () => void): void {
    this.#onAbandoned = callback;
  }

  /** Delivers what waits, to a consumer that can take again. */
  resumeDelivery(): void {
    this.#wanted = true;
    this.#deliver();
  }

  /**
   * Sends bytes, which are the caller's again afterwards; on a closed stream they are dropped. False: some of
   * them wait, and the caller holds back until its consumer's `drained`.
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

  /** Sends a note and the bytes that it is about, together. */
  sendNoted(note: Buffer, bytes: Buffer): boolean {
    if (!this.#open) return true;
    this.#port.hold();
    this.#port.sendNote(this, note);
    const taken = this.send(bytes);
    this.#port.release();
    return taken;
  }

  /** Sends bytes and a note behind them, together; without the note if some of the bytes have to wait. */
  sendThenNote(bytes: Buffer, note: Buffer): boolean {
    if (!this.#open) return true;
    this.#port.hold();
    const taken = this.send(bytes);
    if (taken) this.#port.sendNote(this, note);
    this.#port.release();
    return taken;
  }

  /** The other end's notes so far, once. */
  takeNotes(): readonly Buffer[] | undefined {
    const notes = this.#notes;
    if (notes) this.#dropNotes();
    return notes;
  }

  /** Says EOF once everything before has left: nothing more is sent, what comes is still taken. */
  endSending(): void {
    this.#after ??= 'eof';
    if (!this.#outbound) this.#sayAfter();
  }

  /** Closes the stream once everything before has left. */
  finish(): void {
    this.#after = 'close';
    if (!this.#outbound) this.#sayAfter();
  }

  /** Closes the stream at once: what it holds in either direction is dropped, and its consumer is told nothing. */
  discard(): void {
    this.#consumer = undefined;
    this.#onAbandoned = undefined;
    this.#dropInbound();
    this.#close();
  }

  /** For the muxer: bytes came in, and they are within what is allowed. */
  receive(bytes: Buffer): void {
    this.#receiveCredit -= bytes.length;
    if (this.#wanted && this.#consumer && !this.#inbound) {
      this.#wanted = this.#consumer.take(bytes);
    } else {
      (this.#inbound ??= new ByteQueue()).push(bytes);
      this.#port.heldChanged(this, bytes.length);
    }
    this.#returnCredit();
  }

  /**
   * For the muxer: a note came, which is the muxer's again afterwards. False: more than are kept. With `maxBytes` they
   * count in what is held, and so many bytes of them are kept.
   */
  noted(payload: Buffer, maxBytes?: number): boolean {
    if (maxBytes !== undefined) {
      if (this.#noteBytes + payload.length > maxBytes) return false;
      this.#noteBytes += payload.length;
      this.#port.heldChanged(this, payload.length);
    }
    this.#notes ??= [];
    this.#notes.push(Buffer.from(payload));
    if (this.#notes.length <= MAX_NOTES) return true;
    this.#notes.shift();
    return false;
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
    this.#consumer?.drained();
    if (!this.#outbound) this.#sayAfter();
  }

  /** For the muxer: EOF came. */
  eofByPeer(): void {
    this.#eofReceived = true;
    this.#tellEnds();
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
    this.#dropInbound();
    this.#close();
  }

  /** How many bytes the next frame may carry. */
  #room(): number {
    const limit = Math.min(MAX_DATA, this.#sendCredit);
    return limit > 0 && this.#port.admits(this) ? limit : 0;
  }

  #emitData(bytes: Buffer): void {
    this.#sendCredit -= bytes.length;
    this.#port.sendData(this, bytes);
  }

  #deliver(): void {
    while (this.#wanted && this.#consumer && this.#inbound) {
      const piece = this.#inbound.take()!;
      if (this.#inbound.length === 0) this.#inbound = undefined;
      this.#port.heldChanged(this, -piece.length);
      this.#wanted = this.#consumer.take(piece);
    }
    this.#returnCredit();
    this.#tellEnds();
  }

  /** Returns credit for what was taken, when it is enough to be worth a frame. */
  #returnCredit(): void {
    if (!this.#open || this.#eofReceived) return;
    const due = INITIAL_CREDIT - this.#receiveCredit - this.undelivered;
    if (due < CREDIT_BATCH) return;
    this.#receiveCredit += due;
    this.#port.sendCredit(this, due);
  }

  #sayAfter(): void {
    if (!this.#open) return;
    if (this.#after === 'close') this.#close();
    else if (this.#after === 'eof') {
      this.#after = undefined;
      this.#port.sendEof(this);
    }
  }

  #close(): void {
    if (!this.#open) return;
    this.#port.sendClose(this);
    this.#endBothWays();
  }

  #endBothWays(): void {
    this.#open = false;
    if (this.#outbound) {
      this.#outbound = undefined;
      this.#consumer?.drained();
    }
    this.#tellEnds();
  }

  #dropInbound(): void {
    this.#dropNotes();
    if (this.#inbound) this.#port.heldChanged(this, -this.#inbound.length);
    this.#inbound = undefined;
  }

  #dropNotes(): void {
    this.#notes = undefined;
    const counted = this.#noteBytes;
    this.#noteBytes = 0;
    if (counted > 0) this.#port.heldChanged(this, -counted);
  }

  /** Tells the consumer of ends that lie behind everything it has taken. */
  #tellEnds(): void {
    const consumer = this.#consumer;
    if (!consumer && !this.#open) this.#onAbandoned?.();
    if (!this.#open && consumer?.dropsAtClose) this.#dropInbound();
    if (this.#inbound || !consumer) return;
    if (!this.#open) {
      this.#consumer = undefined;
      this.#dropNotes(); // whoever took the last byte has taken the notes that are about it
      consumer.ended();
    } else if (this.#eofReceived && !this.#eofTold) {
      this.#eofTold = true;
      consumer.eof();
    }
  }
}
