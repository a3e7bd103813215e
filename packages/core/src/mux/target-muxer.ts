import { BridgeError } from '../errors.ts';
import { SOCKET_TYPES, type SocketType } from '../socket-type.ts';
import { decodeFields, encodeFields } from './fields.ts';
import { FRAME, GREETED, MAX_PAYLOAD, PROTOCOL_VERSION } from './frame.ts';
import { Muxer } from './muxer.ts';
import { encodeReady, type ReadyInfo } from './ready.ts';
import type { MuxStream } from './stream.ts';

const HANDLED: ReadonlySet<number> = new Set([
  FRAME.CLOSE,
  FRAME.PUBKEY,
  FRAME.WINDOW,
  FRAME.PING,
  FRAME.CALL,
  FRAME.TABLE,
  FRAME.TURN,
]);
const LAST_ID = 0xffff_ffff;
const TOO_LARGE = ['EMSGSIZE', 'the result is too large'];

/** The target's end of a bridge: it says READY, carries out calls, and opens a stream for every client. */
export class TargetMuxer extends Muxer {
  protected override readonly otherEnd = 'host';
  #lastId = 0;
  protected override readonly noteType = FRAME.TOLD;
  /** Calls that are being carried out. */
  #calls = 0;

  /** Tells the host that the server runs. */
  ready(info: Omit<ReadyInfo, 'version'>): void {
    this.outbox.add(FRAME.READY, 0, encodeReady({ version: PROTOCOL_VERSION, ...info }));
    this.startHeartbeat();
  }

  /** Tells the person at the host something. */
  error(text: string): void {
    this.outbox.add(FRAME.ERROR, 0, Buffer.from(text).subarray(0, MAX_PAYLOAD));
  }

  /** Tells the host that the path of this type's socket does not lead to it any more. */
  changed(socketType: SocketType): void {
    if (!this.closed) this.outbox.add(FRAME.CHANGED, 0, Buffer.from(socketType));
  }

  /** Opens a stream for a client, which this end may have greeted already; throws SESSION_LIMIT when there are too many, SESSION_ENDED after the end. */
  open(socketType: SocketType, { greeted = false } = {}): MuxStream {
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
    this.outbox.add(FRAME.OPEN, this.#lastId, Buffer.from(greeted ? `${socketType}${GREETED}` : socketType));
    return this.addStream(this.#lastId, socketType, greeted);
  }

  override get isWaiting(): boolean {
    return super.isWaiting || this.#calls > 0;
  }

  protected override handles(type: number): boolean {
    return HANDLED.has(type);
  }

  protected override onFrame(type: number, id: number, payload: Buffer): void {
    // Copies: what is done with either takes longer than the carrier's buffer stays as it is.
    if (type === FRAME.TURN) this.streams.get(id)?.noted(payload);
    else if (type === FRAME.TABLE)
      this.emit('table', decodeFields(Buffer.from(payload)) ?? [], SOCKET_TYPES[id]);
    else if (type === FRAME.PUBKEY) this.emit('input', Buffer.from(payload));
    else {
      this.#calls++;
      this.expectAnswer();
      this.emit('call', decodeFields(Buffer.from(payload)) ?? [], (fields) => this.#answer(id, fields));
    }
  }

  protected override onForgotten(): void {
    this.emit('room');
  }

  protected override whyEnded(): BridgeError {
    return new BridgeError('TARGET_CLOSED', {
      what: 'the bridge ended',
      why: 'the host closed its end',
      fix: 'Start it again on the host.',
    });
  }

  #answer(call: number, fields: readonly (string | Buffer)[]): void {
    this.#calls--;
    if (this.closed) return;
    const payload = encodeFields(fields);
    this.outbox.add(FRAME.RESULT, call, payload.length <= MAX_PAYLOAD ? payload : encodeFields(TOO_LARGE));
  }
}
