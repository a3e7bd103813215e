import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';

/**
 * Both ends of a version 1 bridge, written from the protocol's table alone and sharing nothing with the
 * product: frames of types 1 to 6, an empty READY, no credit, unknown types ignored.
 */

type Frame = { type: number; stream: number; payload: Buffer };

function put(socket: Socket, type: number, stream: number, payload: Buffer | string = ''): void {
  const body = Buffer.from(payload);
  const frame = Buffer.alloc(9 + body.length);
  frame.writeUInt32BE(body.length + 5, 0);
  frame.writeUInt8(type, 4);
  frame.writeUInt32BE(stream, 5);
  body.copy(frame, 9);
  socket.write(frame);
}

function listen(socket: Socket, onFrame: (frame: Frame) => void): void {
  let buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= 4 && buffer.length >= 4 + buffer.readUInt32BE(0)) {
      const end = 4 + buffer.readUInt32BE(0);
      onFrame({
        type: buffer.readUInt8(4),
        stream: buffer.readUInt32BE(5),
        payload: Buffer.from(buffer.subarray(9, end)),
      });
      buffer = buffer.subarray(end);
    }
  });
}

/** A stream of either version 1 end: `data` and `close` come in, `send` and `close` go out. */
export class V1Stream extends EventEmitter<{ data: [Buffer]; close: [] }> {
  received = Buffer.alloc(0);
  closed = false;

  constructor(
    private readonly socket: Socket,
    readonly id: number,
  ) {
    super();
  }

  send(bytes: Buffer | string): void {
    put(this.socket, 1, this.id, bytes);
  }

  close(): void {
    this.closed = true;
    put(this.socket, 3, this.id);
  }
}

function dispatch(streams: Map<number, V1Stream>, frame: Frame): void {
  const stream = streams.get(frame.stream);
  if (!stream) return;
  if (frame.type === 1) {
    stream.received = Buffer.concat([stream.received, frame.payload]);
    stream.emit('data', frame.payload);
  } else if (frame.type === 3) {
    stream.closed = true;
    streams.delete(frame.stream);
    stream.emit('close');
  }
}

/** A version 1 target. With gpg among its sockets it says READY only after PUBKEY. */
export class V1Target extends EventEmitter<{ pubkey: [Buffer] }> {
  /** The types of all frames that came, in order. */
  readonly seen: number[] = [];
  readonly #streams = new Map<number, V1Stream>();
  #lastId = 0;

  constructor(
    private readonly socket: Socket,
    sockets: readonly string[],
  ) {
    super();
    let ready = !sockets.includes('gpg-agent');
    if (ready) put(socket, 5, 0);
    listen(socket, (frame) => {
      this.seen.push(frame.type);
      if (!ready) {
        if (frame.type !== 4) throw new Error(`PUBKEY was expected first, type ${frame.type} came`);
        ready = true;
        this.emit('pubkey', frame.payload);
        put(socket, 5, 0);
      }
      dispatch(this.#streams, frame);
    });
  }

  open(socketType: string): V1Stream {
    const stream = new V1Stream(this.socket, ++this.#lastId);
    this.#streams.set(stream.id, stream);
    put(this.socket, 2, stream.id, socketType);
    return stream;
  }

  error(text: string): void {
    put(this.socket, 6, 0, text);
  }
}

/** A version 1 host: PUBKEY first, then it serves whatever is opened. */
export class V1Host extends EventEmitter<{ ready: [Buffer]; stream: [V1Stream, string]; error: [Error] }> {
  readonly seen: number[] = [];
  readonly #streams = new Map<number, V1Stream>();

  constructor(
    private readonly socket: Socket,
    publicKeys: Buffer | undefined,
  ) {
    super();
    if (publicKeys) put(socket, 4, 0, publicKeys);
    listen(socket, (frame) => {
      this.seen.push(frame.type);
      if (frame.type === 5) this.emit('ready', frame.payload);
      if (frame.type !== 2) {
        dispatch(this.#streams, frame);
        return;
      }
      const stream = new V1Stream(this.socket, frame.stream);
      this.#streams.set(stream.id, stream);
      this.emit('stream', stream, frame.payload.toString());
    });
  }
}
