import type { Socket } from 'node:net';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { writeNow } from '../io/write-now.ts';
import type { MuxStream, StreamConsumer } from './stream.ts';

/** The two ways out of a pipe, for whoever looks at or changes what goes through it; neither keeps the bytes. */
export interface Outlets {
  toSocket(bytes: Buffer): void;
  toStream(bytes: Buffer): void;
  /** Sends a note, and the bytes that it is about with it. */
  toStreamNoted(note: Buffer, bytes: Buffer): void;
  /** Sends bytes, and a note behind them; without it if some of the bytes have to wait. */
  toStreamThenNote(bytes: Buffer, note: Buffer): void;
  /** Whether the kernel has not taken all that was written to the socket. */
  readonly socketBusy: boolean;
  /** Takes bytes of the stream again, after `fromStream` held them back. */
  resumeStream(): void;
  /** Ends the writing side of the socket. */
  endSocket(): void;
  /** The last byte that was written to the socket, if any was. */
  readonly lastByte: number | undefined;
}

/** What can be done between a stream and its socket; everything is optional. */
export interface PipeHooks {
  /** The two are joined; nothing has been passed yet. */
  onStart?(out: Outlets): void;
  /**
   * Gets the bytes from the other end, valid during the call, and passes on what it wants. False holds further ones
   * back until `resumeStream`; what it throws ends the session.
   */
  fromStream?(bytes: Buffer, out: Outlets): boolean;
  /** Whether the stream's end is told at once, also while bytes of it are held back, which are dropped then. */
  dropsAtClose?: boolean;
  /** The other end has sent its last byte; without this hook the socket is ended then. */
  onStreamEof?(out: Outlets): void;
  /**
   * The stream has ended, and all of it is written to the socket: the last chance for words to that. True leaves
   * the socket to the hook, which closes it; without this hook it is closed then.
   */
  onStreamEnd?(out: Outlets): boolean;
  /** As `fromStream`, for the bytes of the socket. */
  fromSocket?(bytes: Buffer, out: Outlets): void;
  /** The socket has sent its last byte. */
  onLastByte?(out: Outlets): void;
  /** The socket has ended or failed: the last chance for words to the other end. */
  onSocketEnd?(error: Error | undefined, out: Outlets): void;
  /** The session is over and both are let go; `error` is what the socket or a hook failed with. */
  onEnd?(error: Error | undefined): void;
}

/**
 * Joins a stream and a socket until either ends. Bytes go from the carrier's read to the socket's write,
 * and back, in the same callback: nothing between has a buffer, except for what a slow side leaves, and
 * that holds the fast side back.
 */
export function pipeSocket(stream: MuxStream, socket: Socket, hooks: PipeHooks = {}): void {
  new SocketPipe(stream, socket, hooks).start();
}

class SocketPipe implements StreamConsumer, Outlets {
  lastByte: number | undefined;
  #error: Error | undefined;
  /** The kernel has not taken all that was written to the socket. */
  #socketBusy = false;
  /** The stream waits for credit or for the carrier. */
  #streamBusy = false;
  #socketEnded = false;
  #streamEnded = false;
  /** `fromStream` has enough for now. */
  #hookHolds = false;

  constructor(
    private readonly stream: MuxStream,
    private readonly socket: Socket,
    private readonly hooks: PipeHooks,
  ) {}

  start(): void {
    this.socket.once('end', () => this.#onLastByte());
    this.socket.on('error', (error) => this.#onSocketEnd(error));
    this.socket.once('close', () => this.#onSocketClose());
    this.#run(() => this.hooks.onStart?.(this), undefined);
    takeViews(this.socket, this.#fromSocket);
    this.stream.attach(this);
    // Both may have ended before they were joined; their events do not come again.
    if (this.socket.closed) this.#onSocketClose();
    else if (this.socket.readableEnded) this.#onLastByte();
  }

  // StreamConsumer

  get dropsAtClose(): boolean {
    return this.hooks.dropsAtClose ?? false;
  }

  take(bytes: Buffer): boolean {
    if (!this.hooks.fromStream) this.toSocket(bytes);
    else if (this.#run(this.hooks.fromStream, bytes) === false) this.#hookHolds = true;
    return !this.#held;
  }

  drained(): void {
    if (!this.#streamBusy) return;
    const wasHeld = this.#held;
    this.#streamBusy = false;
    if (!this.#socketEnded) this.socket.resume();
    if (wasHeld && !this.#held) this.stream.resumeDelivery();
  }

  eof(): void {
    if (this.hooks.onStreamEof) this.#run(() => this.hooks.onStreamEof?.(this), undefined);
    else this.endSocket();
  }

  ended(): void {
    this.#streamEnded = true;
    // Both directions are over: what was written still leaves, what still comes is dropped.
    leaveViews(this.socket, this.#fromSocket);
    this.socket.resume();
    if (this.#run(() => this.hooks.onStreamEnd?.(this), undefined)) return;
    // The kernel delivers what it has taken; a half-close before would be two more system calls.
    if (this.socket.writableLength === 0) this.socket.destroy();
    else this.socket.destroySoon();
  }

  // Outlets

  toSocket(bytes: Buffer): void {
    if (!this.socket.writable) return;
    this.lastByte = bytes.at(-1) ?? this.lastByte;
    // Not the socket's own high-water mark: what the kernel does not take is held back at its source.
    if (!writeNow(this.socket, bytes, this.#written)) this.#socketBusy = true;
  }

  toStream(bytes: Buffer): void {
    if (!this.stream.send(bytes)) this.#holdSocket();
  }

  toStreamNoted(note: Buffer, bytes: Buffer): void {
    if (!this.stream.sendNoted(note, bytes)) this.#holdSocket();
  }

  toStreamThenNote(bytes: Buffer, note: Buffer): void {
    if (!this.stream.sendThenNote(bytes, note)) this.#holdSocket();
  }

  get socketBusy(): boolean {
    return this.#socketBusy;
  }

  resumeStream(): void {
    if (!this.#hookHolds) return;
    this.#hookHolds = false;
    if (!this.#held) this.stream.resumeDelivery();
  }

  endSocket(): void {
    if (this.socket.writable) this.socket.end();
  }

  /** A hook can answer what it takes from the stream, so there a busy stream holds its own input back. */
  get #held(): boolean {
    return this.#socketBusy || this.#hookHolds || (this.#streamBusy && this.hooks.fromStream !== undefined);
  }

  readonly #fromSocket = (bytes: Buffer): void => {
    if (this.hooks.fromSocket) this.#run(this.hooks.fromSocket, bytes);
    else this.toStream(bytes);
  };

  readonly #written = (): void => {
    if (!this.#socketBusy || this.socket.writableLength > 0) return;
    this.#socketBusy = false;
    if (!this.#held) this.stream.resumeDelivery();
  };

  #holdSocket(): void {
    this.#streamBusy = true;
    this.socket.pause();
  }

  /** Where half-open connections are allowed the other side may still want answers; else it has gone. */
  #onLastByte(): void {
    if (!this.#socketEnded && !this.#streamEnded) this.#run(() => this.hooks.onLastByte?.(this), undefined);
    if (this.socket.allowHalfOpen && this.socket.writable) this.stream.endSending();
    else this.#onSocketEnd();
  }

  #onSocketEnd(error?: Error): void {
    this.#error ??= error;
    if (this.#socketEnded) return;
    this.#socketEnded = true;
    if (!this.#streamEnded) this.#run(this.hooks.onSocketEnd, error);
    this.stream.finish();
  }

  #onSocketClose(): void {
    this.#onSocketEnd();
    // Nothing can be written any more, so what still comes for the socket is taken and dropped.
    this.#socketBusy = false;
    if (!this.#held) this.stream.resumeDelivery();
    this.hooks.onEnd?.(this.#error);
  }

  /** Calls a hook; one that fails ends the session. */
  #run<First, Result>(
    hook: ((first: First, out: Outlets) => Result) | undefined,
    first: First,
  ): Result | undefined {
    try {
      return hook?.call(this.hooks, first, this);
    } catch (error) {
      this.#error ??= error instanceof Error ? error : new Error(String(error));
      this.stream.finish();
      this.socket.destroy();
      return undefined;
    }
  }
}
