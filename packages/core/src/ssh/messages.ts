import { BridgeError } from '../errors.ts';

/**
 * The messages of the ssh-agent protocol.
 *
 *  0        4      5
 *  +--------+------+---------- - - -
 *  | length | type | contents
 *  +--------+------+---------- - - -
 *  length: uint32 big-endian, counts type + contents
 */

/** The type bytes the bridge has to know. */
export const SSH_AGENT = {
  FAILURE: 5,
  REQUEST_IDENTITIES: 11,
  IDENTITIES_ANSWER: 12,
  SIGN_REQUEST: 13,
  EXTENSION: 27,
} as const;

/** What `length` may be at most; OpenSSH's own agent has the same limit. */
export const MAX_MESSAGE = 262_144;

/** The answer to whatever is not allowed. */
export const FAILURE_MESSAGE: Buffer = Buffer.of(0, 0, 0, 1, SSH_AGENT.FAILURE);

/** The question for the list of keys. */
export const LIST_MESSAGE: Buffer = Buffer.of(0, 0, 0, 1, SSH_AGENT.REQUEST_IDENTITIES);

/** The extension by which a client says which login a connection is for. */
export const SESSION_BIND = 'session-bind@openssh.com';

const LENGTH_BYTES = 4;

/** One message: `bytes` are the whole of it, as they came. */
export class SshMessage {
  constructor(readonly bytes: Buffer) {}

  get type(): number {
    return this.bytes.readUInt8(LENGTH_BYTES);
  }

  get contents(): Buffer {
    return this.bytes.subarray(LENGTH_BYTES + 1);
  }

  /** The same in memory of its own: one that is kept must not keep the chunk it came in. */
  copy(): SshMessage {
    return new SshMessage(Buffer.from(this.bytes));
  }

  /** A message made here. */
  static of(type: number, contents: Buffer): SshMessage {
    const head = Buffer.allocUnsafe(LENGTH_BYTES + 1);
    head.writeUInt32BE(contents.length + 1);
    head.writeUInt8(type, LENGTH_BYTES);
    return new SshMessage(Buffer.concat([head, contents]));
  }
}

/** Cuts one direction of a connection into messages, whatever the chunks; holds at most one. */
export class SshMessageReader {
  readonly #sender: string;
  readonly #length = Buffer.alloc(LENGTH_BYTES);
  #lengthFilled = 0;
  #partial: Buffer | undefined;
  #partialFilled = 0;

  /** `sender` names who sends, for the error. */
  constructor(sender: string) {
    this.#sender = sender;
  }

  /**
   * Tells the messages that these bytes complete one by one, since a client may send ten thousand at once; throws
   * SSH_PROTOCOL for a length that can't be.
   */
  push(chunk: Buffer, onMessage: (message: SshMessage) => void): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#partial) {
        at += this.#fill(chunk, at, onMessage);
      } else if (this.#lengthFilled === 0 && chunk.length - at >= LENGTH_BYTES) {
        const end = at + LENGTH_BYTES + this.#check(chunk.readUInt32BE(at));
        if (end <= chunk.length) {
          onMessage(new SshMessage(chunk.subarray(at, end)));
          at = end;
        } else {
          this.#begin(end - at);
        }
      } else {
        const copied = chunk.copy(this.#length, this.#lengthFilled, at);
        this.#lengthFilled += copied;
        at += copied;
        if (this.#lengthFilled === LENGTH_BYTES) this.#beginWithLength();
      }
    }
  }

  #begin(size: number): void {
    this.#partial = Buffer.allocUnsafe(size);
    this.#partialFilled = 0;
  }

  #beginWithLength(): void {
    this.#begin(LENGTH_BYTES + this.#check(this.#length.readUInt32BE(0)));
    this.#partialFilled = this.#length.copy(this.#partial!);
    this.#lengthFilled = 0;
  }

  #fill(chunk: Buffer, at: number, onMessage: (message: SshMessage) => void): number {
    const whole = this.#partial!;
    const copied = chunk.copy(whole, this.#partialFilled, at);
    this.#partialFilled += copied;
    if (this.#partialFilled === whole.length) {
      this.#partial = undefined;
      onMessage(new SshMessage(whole));
    }
    return copied;
  }

  #check(length: number): number {
    if (length >= 1 && length <= MAX_MESSAGE) return length;
    throw new BridgeError('SSH_PROTOCOL', {
      what: 'an ssh session was closed',
      why: `the ${this.#sender} announced a message of ${length} bytes, and only 1 to ${MAX_MESSAGE} are possible`,
      fix: 'Make sure that what talks to the socket is an ssh program.',
    });
  }
}
