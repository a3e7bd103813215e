import { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { type BridgeError, toBridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { AbandonedPace } from './abandoned-pace.ts';
import { FrameDecoder, type FrameSink } from './codec.ts';
import { carrierError, creditExceeded, leftUnread, lineSilent } from './end-reasons.ts';
import { FRAME, type FrameTrace, MAX_HELD, MAX_STREAMS } from './frame.ts';
import { Heartbeat, type HeartbeatOwner, type HeartbeatTimes } from './heartbeat.ts';
import { Outbox, type OutboxOwner } from './outbox.ts';
import type { ReadyInfo } from './ready.ts';
import { MuxStream, type StreamPort } from './stream.ts';

/** The two directions of what carries the frames: stdin and stdout of a process, or a socket twice. */
export interface Carrier {
  input: Readable;
  output: Writable;
}

/** Options of both ends. */
export interface MuxerOptions {
  maxStreams?: number;
  /** What is held for all streams together, in bytes; at that limit nothing more is read. */
  maxHeld?: number;
  /** How long that may last before the streams that hold the most are closed. */
  stuckMs?: number;
  /** When a line that says nothing is given up; never, if not given. */
  heartbeat?: HeartbeatTimes | undefined;
  /** Told of every frame, but not what it carries. */
  trace?: FrameTrace | undefined;
}

/** Facts about a bridge for its status. */
export interface MuxerStats {
  streams: { open: number; total: number };
  /** Payload bytes of all streams. */
  bytes: { received: number; sent: number };
  /** Bytes held in memory: received and not taken, accepted and not sent. */
  held: { inbound: number; outbound: number };
}

/** What happens at an end of a bridge. */
export interface MuxerEvents {
  /** Host: the server in the target runs. */
  ready: [info: ReadyInfo];
  /** Host: a client connected in the target. */
  stream: [stream: MuxStream, socketType: string];
  /** Host: the target says something to a person. */
  'error-message': [text: string];
  /** Host: the path of this type's socket does not lead to it any more. */
  changed: [socketType: string];
  /** Target: an operation, and how to answer it. */
  call: [fields: Buffer[], answer: (fields: readonly (string | Buffer)[]) => void];
  /** Target: what it answers ahead from now on, to clients of this socket type. */
  table: [fields: Buffer[], socketType: string | undefined];
  /** Target: bytes for the stdin of the next program. */
  input: [bytes: Buffer];
  /** Target: a stream has ended, and another one fits. */
  room: [];
  /** Both: the bridge has ended, with the reason unless `close` was called. Nothing follows. */
  close: [error: BridgeError | undefined];
}

/**
 * With more than this waiting for the carrier nothing more is read from it. Data waits its turn and can't add
 * up to it: only answers can (CLOSE to OPEN), to a peer that asks without listening.
 */
const MAX_ANSWERS_BYTES = 2 * 1_048_576;

/**
 * How long the limit of what is held may last. While nothing is read, credit is not read either; clients that
 * send without taking their answers could stop the bridge for good.
 */
const STUCK_MS = 5_000;

/**
 * What both ends of a bridge have in common: streams by id, credit, the way in and the way out.
 * `HostMuxer` and `TargetMuxer` add the frames that only they receive.
 */
export abstract class Muxer
  extends EventEmitter<MuxerEvents>
  implements FrameSink, StreamPort, OutboxOwner, HeartbeatOwner
{
  protected readonly outbox: Outbox;
  protected readonly streams = new Map<number, MuxStream>();
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #decoder = new FrameDecoder(this);
  readonly #maxStreams: number;
  readonly #maxHeld: number;
  readonly #stuckMs: number;
  readonly #heartbeat: Heartbeat | undefined;
  readonly #trace: FrameTrace | undefined;
  #stuck: NodeJS.Timeout | undefined;
  readonly #abandoned = new AbandonedPace();
  /** Nothing is read until it ends: too many streams were abandoned. */
  #rest: NodeJS.Timeout | undefined;
  /** They have data and wait for the carrier, the longest waiting first. */
  readonly #waiting = new Set<MuxStream>();
  /** Received and not taken by the consumers of all streams, closed ones included. */
  #held = 0;
  /** The stream whose DATA payload is coming in. */
  #receiving: MuxStream | undefined;
  #total = 0;
  #bytesReceived = 0;
  #bytesSent = 0;
  #closed = false;

  constructor(carrier: Carrier, options: MuxerOptions = {}) {
    super();
    this.#input = carrier.input;
    this.#output = carrier.output;
    this.#maxStreams = options.maxStreams ?? MAX_STREAMS;
    this.#maxHeld = options.maxHeld ?? MAX_HELD;
    this.#stuckMs = options.stuckMs ?? STUCK_MS;
    this.#heartbeat = options.heartbeat && new Heartbeat(options.heartbeat, this);
    this.#trace = options.trace;
    this.outbox = new Outbox(carrier.output, this, options.trace);
    takeViews(this.#input, this.#onChunk);
    this.#input.once('end', () => this.end(this.whyEnded()));
    this.#input.once('close', () => this.end(this.whyEnded()));
    // Listeners stay for good: a carrier may fail again after the bridge has ended.
    for (const side of [this.#input, this.#output])
      side.on('error', (error) => this.end(hasNoReader(error) ? this.whyEnded() : carrierError(error)));
    this.#output.once('close', () => this.end(this.whyEnded()));
    // One that ended before has told it already, to nobody.
    if (this.#input.readableEnded || this.#input.destroyed) {
      process.nextTick(() => this.end(this.whyEnded()));
    }
  }

  /** How much there is of everything. */
  get stats(): MuxerStats {
    const held = { inbound: this.#decoder.buffered + this.#held, outbound: this.outbox.buffered };
    for (const stream of this.streams.values()) held.outbound += stream.unsent;
    return {
      streams: { open: this.streams.size, total: this.#total },
      bytes: { received: this.#bytesReceived, sent: this.#bytesSent },
      held,
    };
  }

  /** Whether the other end has not answered for a while. */
  get isOverdue(): boolean {
    return this.#heartbeat?.isOverdue ?? false;
  }

  /** Whether the bridge has ended. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Whether one more stream fits. */
  get hasRoom(): boolean {
    return this.streams.size < this.#maxStreams;
  }

  /** Ends the bridge: streams deliver what they received and end, and so does the carrier's output. */
  close(): void {
    this.end(undefined);
  }

  // FrameSink

  header(type: number, id: number, payloadLength: number): boolean {
    this.#trace?.('<', type, id, payloadLength);
    if (type !== FRAME.DATA) return !this.#closed && this.handles(type);
    const stream = this.streams.get(id);
    this.#receiving = stream;
    if (!stream) return false;
    if (payloadLength <= stream.receiveCredit) return true;
    stream.giveUp(creditExceeded(stream));
    return false;
  }

  data(piece: Buffer): void {
    const stream = this.#receiving;
    if (!stream?.open) return;
    this.#bytesReceived += piece.length;
    stream.receive(piece);
  }

  frame(type: number, id: number, payload: Buffer): void {
    if (type === FRAME.PING) this.outbox.add(FRAME.PONG, 0);
    else if (type === FRAME.CLOSE) this.#onClose(id);
    else if (type === FRAME.WINDOW) this.#onWindow(id, payload);
    else this.onFrame(type, id, payload);
  }

  // StreamPort

  admits(stream: MuxStream): boolean {
    if (!this.outbox.busy) return true;
    this.#waiting.add(stream);
    return false;
  }

  sendData(stream: MuxStream, bytes: Buffer): void {
    this.#bytesSent += bytes.length;
    this.outbox.add(FRAME.DATA, stream.id, bytes);
  }

  sendCredit(stream: MuxStream, bytes: number): void {
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32BE(bytes);
    this.outbox.add(FRAME.WINDOW, stream.id, payload);
  }

  sendEof(stream: MuxStream): void {
    if (!this.#closed) this.outbox.add(FRAME.EOF, stream.id);
  }

  sendNote(stream: MuxStream, payload: Buffer): void {
    this.outbox.add(this.noteType, stream.id, payload);
  }

  hold(): void {
    this.outbox.hold();
  }

  release(): void {
    this.outbox.release();
  }

  sendClose(stream: MuxStream): void {
    if (!this.#closed) this.outbox.add(FRAME.CLOSE, stream.id);
    this.#forget(stream);
  }

  heldChanged(_stream: MuxStream, difference: number): void {
    this.#held += difference;
    if (difference < 0) this.#readAgain();
  }

  // OutboxOwner

  get crowded(): boolean {
    return this.streams.size > 1;
  }

  onRoom(): void {
    this.#readAgain();
    for (const stream of this.#waiting) {
      if (this.outbox.busy) return;
      this.#waiting.delete(stream);
      stream.flush();
    }
  }

  // HeartbeatOwner

  get isWaiting(): boolean {
    return this.streams.size > 0 || this.outbox.buffered > 0;
  }

  ping(): void {
    this.outbox.add(FRAME.PING, 0);
  }

  lost(): void {
    this.end(lineSilent(this.otherEnd, this.#heartbeat?.limitMs ?? 0));
  }

  // What the two ends differ in

  /** The frame that carries this end's notes about a stream. */
  protected abstract readonly noteType: number;

  protected abstract readonly otherEnd: 'host' | 'target';

  /** Whether this end has a use for frames of this type; others are skipped unread. */
  protected abstract handles(type: number): boolean;

  /** A whole frame that is not DATA, CLOSE, WINDOW or PING. */
  protected abstract onFrame(type: number, id: number, payload: Buffer): void;

  /** Every chunk before it is decoded. */
  protected onChunk(_chunk: Buffer): void {}

  /** A stream is not open any more. */
  protected onForgotten(): void {}

  /** The reason when the carrier ends without an error. */
  protected abstract whyEnded(): BridgeError;

  /** Both ends are there: from now on each looks whether the other one still is. */
  protected startHeartbeat(): void {
    if (!this.#closed) this.#heartbeat?.start();
  }

  /** An answer of the other end is waited for. */
  protected expectAnswer(): void {
    this.#heartbeat?.wake();
  }

  protected addStream(id: number, socketType: string, greeted = false): MuxStream {
    const stream = new MuxStream(id, socketType, this, greeted);
    this.streams.set(id, stream);
    this.#total += 1;
    this.expectAnswer();
    return stream;
  }

  /** Ends the bridge, once. */
  protected end(error: BridgeError | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    // Read on, to nowhere: a process that still prints would otherwise never come to its end.
    leaveViews(this.#input, this.#onChunk);
    this.#input.resume();
    clearTimeout(this.#stuck);
    clearTimeout(this.#rest);
    this.#heartbeat?.stop();
    this.#waiting.clear();
    this.outbox.stop();
    for (const stream of [...this.streams.values()]) {
      this.#forget(stream);
      stream.closedByPeer(error);
    }
    this.#output.end();
    this.emit('close', error);
  }

  readonly #onChunk = (chunk: Buffer): void => {
    this.#heartbeat?.heard();
    try {
      this.onChunk(chunk);
      this.#decoder.push(chunk);
    } catch (error) {
      this.end(toBridgeError(error, 'the bridge broke'));
      return;
    }
    // Not after the end, which may have come with a frame: then everything is read, to nowhere.
    if (this.#closed) return;
    this.#restIfTooMany();
    if (!this.#full) return;
    this.#input.pause();
    this.#stuck ??= setTimeout(() => this.#closeLargest(), this.#stuckMs).unref();
  };

  #restIfTooMany(): void {
    const restMs = this.#abandoned.rest();
    if (restMs === 0) return;
    this.#input.pause();
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => {
      this.#rest = undefined;
      this.#readAgain();
    }, restMs).unref();
  }

  /** Whether what is held, for consumers or for the carrier, is as much as it may be. */
  get #full(): boolean {
    return this.#held >= this.#maxHeld || this.outbox.buffered > MAX_ANSWERS_BYTES;
  }

  #readAgain(): void {
    if (!this.#input.isPaused() || this.#full || this.#rest) return;
    clearTimeout(this.#stuck);
    this.#stuck = undefined;
    this.#input.resume();
  }

  /** Makes room for others by closing the streams whose consumers have left the most. */
  #closeLargest(): void {
    this.#stuck = undefined;
    const largest = [...this.streams.values()].sort((a, b) => b.held - a.held);
    for (const stream of largest) {
      if (this.#held < this.#maxHeld || stream.held === 0) return;
      stream.giveUp(leftUnread(stream));
    }
  }

  #onClose(id: number): void {
    const stream = this.streams.get(id);
    if (!stream) return;
    if (!stream.attached) this.#abandoned.count();
    this.#forget(stream);
    stream.closedByPeer();
  }

  #onWindow(id: number, payload: Buffer): void {
    if (payload.length === 4) this.streams.get(id)?.grant(payload.readUInt32BE(0));
  }

  #forget(stream: MuxStream): void {
    this.streams.delete(stream.id);
    this.#waiting.delete(stream);
    this.onForgotten();
  }
}

/** Whether what was written has nobody to take it: the other end has gone, which is noticed so or by its last byte. */
function hasNoReader(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE';
}
