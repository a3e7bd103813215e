import { BridgeError } from '../errors.ts';
import { SOCKET_TYPES, type SocketType } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import { decodeFields, encodeFields } from './fields.ts';
import { FRAME, GREETED, MAX_DATA, PROTOCOL_VERSION } from './frame.ts';
import { type Carrier, Muxer, type MuxerOptions } from './muxer.ts';
import { parseReady, type ReadyInfo } from './ready.ts';
import type { MuxStream } from './stream.ts';

/** Options of the host's end. */
export interface HostMuxerOptions extends MuxerOptions {
  /** The socket types it serves; an OPEN of another is answered with CLOSE. */
  socketTypes?: readonly string[];
}

const HANDLED: ReadonlySet<number> = new Set([
  FRAME.OPEN,
  FRAME.CLOSE,
  FRAME.READY,
  FRAME.ERROR,
  FRAME.WINDOW,
  FRAME.EOF,
  FRAME.PING,
  FRAME.RESULT,
  FRAME.CHANGED,
  FRAME.TOLD,
]);
const BEFORE_READY: ReadonlySet<number> = new Set([FRAME.READY, FRAME.ERROR]);
/** How much of what a target printed instead of frames is kept, to be shown. */
const HEARD_BYTES = 400;
/** Ids of answers that a target has given on one stream and no command has come for; one line is six bytes or more. */
const MAX_TOLD_BYTES = 16_384;
/** Fields of a result. A view of a field costs far more than its four bytes; no directory of GnuPG's has as many names. */
const MAX_RESULT_FIELDS = 16_384;
const NOTHING = Buffer.alloc(0);

/** A call whose result has not come. */
interface PendingCall {
  resolve(fields: Buffer[]): void;
  reject(error: Error): void;
}

/** The host's end of a bridge: it waits for READY, calls operations, and gets a stream for every client. */
export class HostMuxer extends Muxer {
  protected override readonly otherEnd = 'target';
  readonly #socketTypes: readonly string[];
  readonly #calls = new Map<number, PendingCall>();
  #lastCall = 0;
  #info: ReadyInfo | undefined;
  /** The first bytes of a target that is not ready yet. */
  #heard = NOTHING;
  #lastMessage: string | undefined;
  protected override readonly noteType = FRAME.TURN;

  constructor(carrier: Carrier, options: HostMuxerOptions = {}) {
    super(carrier, options);
    this.#socketTypes = options.socketTypes ?? SOCKET_TYPES;
    this.once('close', (error) => {
      for (const { reject } of this.#calls.values()) reject(error ?? this.whyEnded());
      this.#calls.clear();
    });
  }

  /** What the target said when it was ready. */
  get info(): ReadyInfo | undefined {
    return this.#info;
  }

  /** Has an operation carried out in the target; resolves to the fields of its result. */
  call(fields: readonly (string | Buffer)[]): Promise<Buffer[]> {
    if (this.closed) return Promise.reject(this.whyEnded());
    this.#lastCall += 1;
    const number = this.#lastCall;
    return new Promise((resolve, reject) => {
      this.outbox.add(FRAME.CALL, number, encodeFields(fields)); // throws if no frame can hold it
      this.#calls.set(number, { resolve, reject });
      this.expectAnswer();
    });
  }

  /** Sends bytes for the stdin of the program that the next call runs, as fast as the carrier takes them. */
  async sendInput(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length && !this.closed; at += MAX_DATA) {
      await this.outbox.room();
      if (this.closed) return;
      this.outbox.add(FRAME.PUBKEY, 0, bytes.subarray(at, at + MAX_DATA));
      this.expectAnswer(); // a carrier that takes no more of them would else be waited for
    }
  }

  /** Sends what the target answers ahead from now on, to clients of this type; nothing at all with an empty list. */
  sendTable(socketType: SocketType, fields: readonly (string | Buffer)[]): void {
    if (this.closed) return;
    this.outbox.add(FRAME.TABLE, SOCKET_TYPES.indexOf(socketType), encodeFields(fields));
  }

  override get isWaiting(): boolean {
    return super.isWaiting || this.#calls.size > 0;
  }

  override header(type: number, id: number, payloadLength: number): boolean {
    if (!this.#info && !BEFORE_READY.has(type)) throw this.#notABridge();
    return super.header(type, id, payloadLength);
  }

  protected override handles(type: number): boolean {
    return HANDLED.has(type);
  }

  protected override onChunk(chunk: Buffer): void {
    if (this.#info || this.#heard.length >= HEARD_BYTES) return;
    this.#heard = Buffer.concat([this.#heard, chunk.subarray(0, HEARD_BYTES - this.#heard.length)]);
  }

  protected override onFrame(type: number, id: number, payload: Buffer): void {
    switch (type) {
      case FRAME.OPEN:
        this.#onOpen(id, payload.toString('latin1'));
        break;
      case FRAME.EOF:
        this.streams.get(id)?.eofByPeer();
        break;
      case FRAME.TOLD:
        this.#onTold(id, payload);
        break;
      case FRAME.RESULT:
        this.#onResult(id, payload);
        break;
      case FRAME.CHANGED:
        this.emit('changed', payload.toString('latin1'));
        break;
      case FRAME.READY:
        this.#onReady(payload);
        break;
      default:
        this.#onError(payload);
    }
  }

  /** A wrong length before READY is no broken bridge but a program that prints something else. */
  protected override end(error: BridgeError | undefined): void {
    super.end(error?.code === 'FRAME_LENGTH' && !this.#info ? this.#notABridge(error) : error);
  }

  protected override whyEnded(): BridgeError {
    if (!this.#info && this.#lastMessage !== undefined) {
      return new BridgeError('TARGET_ERROR', {
        what: 'the target could not start its end of the bridge',
        why: this.#lastMessage,
        fix: 'Put that right in the target and start the bridge again.',
      });
    }
    if (!this.#info && this.#heard.length > 0) return this.#notABridge();
    const when = this.#info ? '' : ' before it was ready';
    const words = this.#lastMessage === undefined ? '' : ` after it said "${this.#lastMessage}"`;
    return new BridgeError('TARGET_CLOSED', {
      what: 'the bridge ended',
      why: `the target closed its end${when}${words}`,
      fix: 'See whether the target still runs, and start the bridge again.',
    });
  }

  #onOpen(id: number, opened: string): void {
    const greeted = opened.endsWith(GREETED);
    const socketType = greeted ? opened.slice(0, -GREETED.length) : opened;
    if (id === 0 || this.streams.has(id)) {
      throw new BridgeError('STREAM_IN_USE', {
        what: 'the bridge broke',
        why: `the target opened stream ${id}, which is in use`,
        fix: 'Start the bridge again.',
      });
    }
    if (!this.#socketTypes.includes(socketType) || !this.hasRoom) this.outbox.add(FRAME.CLOSE, id);
    else this.emit('stream', this.addStream(id, socketType, greeted), socketType);
  }

  /** A target that tells of lines faster than it sends them is not one of ours. */
  #onTold(id: number, payload: Buffer): void {
    const stream = this.streams.get(id);
    if (stream && !stream.noted(payload, MAX_TOLD_BYTES)) stream.giveUp(tooMuchTold(stream));
  }

  #onReady(payload: Buffer): void {
    if (this.#info) return;
    const info = parseReady(payload);
    if (!info) throw this.#notABridge();
    if (info.version !== PROTOCOL_VERSION) {
      throw new BridgeError('VERSION_MISMATCH', {
        what: 'the two ends of the bridge do not fit together',
        why: `the host speaks version ${PROTOCOL_VERSION} of the protocol, the target ${info.version}`,
        fix: 'Install GPG Bridge again: its parts are of different versions.',
      });
    }
    this.#info = info;
    this.#heard = NOTHING;
    this.startHeartbeat();
    this.emit('ready', info);
  }

  #onResult(number: number, payload: Buffer): void {
    const call = this.#calls.get(number);
    if (!call) return;
    this.#calls.delete(number);
    // A copy: the payload may be a view of the carrier's buffer, and a result is looked at later.
    const fields = decodeFields(Buffer.from(payload), MAX_RESULT_FIELDS);
    if (fields) call.resolve(fields);
    else call.reject(new Error('the target answered an operation with something unreadable'));
  }

  #onError(payload: Buffer): void {
    this.#lastMessage = printable(payload);
    this.emit('error-message', this.#lastMessage);
  }

  #notABridge(cause?: BridgeError): BridgeError {
    return new BridgeError('NOT_A_BRIDGE', {
      what: 'the target did not start its end of the bridge',
      why: `it printed "${printable(this.#heard, 200)}"`,
      fix: 'Make sure that nothing in the target prints to standard output before the bridge does (a shell profile, for example).',
      cause,
    });
  }
}

function tooMuchTold(stream: MuxStream): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: `session ${stream.id} was closed`,
    why: 'the target told of more answers than it can have given',
    fix: 'Try the command again.',
  });
}
