import { BridgeError } from '../errors.ts';
import { SOCKET_TYPES } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import { FRAME, MAX_PAYLOAD } from './frame.ts';
import { type Carrier, Muxer, type MuxerOptions } from './muxer.ts';
import { splitPublicKeys } from './public-keys.ts';
import { FEATURES, parseReady, type ReadyInfo } from './ready.ts';

/** Options of the host's end. */
export interface HostMuxerOptions extends MuxerOptions {
  /** The socket types it serves; an OPEN of another is answered with CLOSE. */
  socketTypes?: readonly string[];
}

/** How much of a keyring could be sent, in bytes. */
export interface KeysSent {
  sent: number;
  /** A version 1 target takes one frame, and a single key has to fit in one. */
  unsent: number;
}

const HANDLED: ReadonlySet<number> = new Set([
  FRAME.OPEN,
  FRAME.CLOSE,
  FRAME.READY,
  FRAME.ERROR,
  FRAME.WINDOW,
]);
const BEFORE_READY: ReadonlySet<number> = new Set([FRAME.READY, FRAME.ERROR]);
/** How much of what a target printed instead of frames is kept, to be shown. */
const HEARD_BYTES = 400;
const NO_KEYS = Buffer.alloc(0);

/** The host's end of a bridge: it waits for READY, and then gets a stream for every client. */
export class HostMuxer extends Muxer {
  readonly #socketTypes: readonly string[];
  readonly #readyOrEnded: Promise<void>;
  #sayReadyOrEnded = (): void => {};
  #info: ReadyInfo | undefined;
  /** The first bytes of a target that is not ready yet. */
  #heard = Buffer.alloc(0);
  #lastMessage: string | undefined;

  constructor(carrier: Carrier, options: HostMuxerOptions = {}) {
    super(carrier, options);
    this.#socketTypes = options.socketTypes ?? SOCKET_TYPES;
    this.#readyOrEnded = new Promise((resolve) => {
      this.#sayReadyOrEnded = resolve;
    });
    this.once('close', this.#sayReadyOrEnded);
  }

  /** What the target said when it was ready. */
  get info(): ReadyInfo | undefined {
    return this.#info;
  }

  /**
   * Sends public keys, an empty buffer for none. A target that serves gpg waits for the first ones before
   * it listens; what does not fit in one frame follows after READY, if the target can take it.
   */
  async sendPublicKeys(keys: Buffer): Promise<KeysSent> {
    const { parts, oversized } = splitPublicKeys(keys, MAX_PAYLOAD);
    const result: KeysSent = { sent: 0, unsent: oversized };
    if (!this.#info) {
      const first = parts.shift() ?? NO_KEYS;
      this.outbox.add(FRAME.PUBKEY, 0, first);
      result.sent += first.length;
    }
    if (parts.length > 0) await this.#readyOrEnded;
    for (const part of parts) {
      await this.outbox.room();
      const takes = !this.closed && this.#info?.features.includes(FEATURES.MORE_KEYS);
      if (takes) this.outbox.add(FRAME.PUBKEY, 0, part);
      result[takes ? 'sent' : 'unsent'] += part.length;
    }
    return result;
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
    if (type === FRAME.OPEN) this.#onOpen(id, payload.toString('latin1'));
    else if (type === FRAME.READY) this.#onReady(payload);
    else this.#onError(payload);
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

  #onOpen(id: number, socketType: string): void {
    if (id === 0 || this.streams.has(id)) {
      throw new BridgeError('STREAM_IN_USE', {
        what: 'the bridge broke',
        why: `the target opened stream ${id}, which is in use`,
        fix: 'Start the bridge again.',
      });
    }
    if (!this.#socketTypes.includes(socketType) || !this.hasRoom) this.outbox.add(FRAME.CLOSE, id);
    else this.emit('stream', this.addStream(id, socketType), socketType);
  }

  #onReady(payload: Buffer): void {
    if (this.#info) return;
    const info = parseReady(payload);
    if (!info) throw this.#notABridge();
    this.#info = info;
    this.#heard = NO_KEYS;
    const useCredit = info.features.includes(FEATURES.WINDOW);
    // The announcement is the first frame after READY, so a target never has to guess for long.
    if (useCredit) this.outbox.add(FRAME.WINDOW, 0, Buffer.alloc(4));
    this.settleCredit(useCredit ? 'used' : 'unused');
    this.#sayReadyOrEnded();
    this.emit('ready', info);
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
