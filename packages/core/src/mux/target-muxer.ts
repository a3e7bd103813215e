import { BridgeError } from '../errors.ts';
import type { SocketType } from '../socket-type.ts';
import { FRAME, MAX_PAYLOAD } from './frame.ts';
import { type Carrier, Muxer, type MuxerOptions } from './muxer.ts';
import { encodeReady, FEATURES, type ReadyInfo } from './ready.ts';
import type { MuxStream } from './stream.ts';

/** Options of the target's end. */
export interface TargetMuxerOptions extends MuxerOptions {
  /** What it announces in READY. */
  features?: readonly string[];
}

const HANDLED: ReadonlySet<number> = new Set([FRAME.CLOSE, FRAME.PUBKEY, FRAME.WINDOW]);
const LAST_ID = 0xffff_ffff;

/** The target's end of a bridge: it says READY, and opens a stream for every client. */
export class TargetMuxer extends Muxer {
  readonly #features: readonly string[];
  #lastId = 0;

  constructor(carrier: Carrier, options: TargetMuxerOptions = {}) {
    super(carrier, options);
    this.#features = options.features ?? Object.values(FEATURES);
    if (!this.#features.includes(FEATURES.WINDOW)) this.settleCredit('unused');
  }

  /** Tells the host that the sockets listen. */
  ready(info: Pick<ReadyInfo, 'sockets' | 'runtime'> & { warnings?: readonly string[] }): void {
    const { warnings = [], ...facts } = info;
    this.outbox.add(
      FRAME.READY,
      0,
      encodeReady({ version: 2, features: this.#features, ...facts, warnings }),
    );
  }

  /** Tells the person at the host something. */
  error(text: string): void {
    this.outbox.add(FRAME.ERROR, 0, Buffer.from(text).subarray(0, MAX_PAYLOAD));
  }

  /** Opens a stream for a client; throws SESSION_LIMIT when there are too many, SESSION_ENDED after the end. */
  open(socketType: SocketType): MuxStream {
    if (this.closed || this.#lastId === LAST_ID) {
      throw new BridgeError('SESSION_ENDED', {
        what: 'a client could not be served',
        why: this.closed ? 'the bridge has ended' : 'the bridge has used up its stream ids',
        fix: 'Start the bridge again.',
      });
    }
    if (!this.hasRoom) {
      throw new BridgeError('SESSION_LIMIT', {
        what: 'a client could not be served',
        why: `${this.streams.size} sessions are open already`,
        fix: 'Close some, or raise the limit.',
      });
    }
    this.#lastId += 1;
    this.outbox.add(FRAME.OPEN, this.#lastId, Buffer.from(socketType));
    return this.addStream(this.#lastId, socketType);
  }

  /**
   * A host announces credit before anything it sends for a stream. So one that sends something else is a
   * version 1 host, which gives none.
   */
  override header(type: number, id: number, payloadLength: number): boolean {
    if (!this.creditSettled && (type === FRAME.DATA || type === FRAME.CLOSE)) this.settleCredit('unused');
    return super.header(type, id, payloadLength);
  }

  protected override onWindowSeen(): void {
    if (this.#features.includes(FEATURES.WINDOW)) this.settleCredit('used');
  }

  protected override handles(type: number): boolean {
    return HANDLED.has(type);
  }

  protected override onFrame(_type: number, _id: number, payload: Buffer): void {
    this.emit('pubkey', Buffer.from(payload)); // gpg takes its time
  }

  protected override whyEnded(): BridgeError {
    return new BridgeError('TARGET_CLOSED', {
      what: 'the bridge ended',
      why: 'the host closed its end',
      fix: 'Start it again on the host.',
    });
  }
}
