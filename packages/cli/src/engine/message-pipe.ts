import { type NetConnectOpts, Socket } from 'node:net';

const NOTHING = Buffer.alloc(0);

/**
 * A named pipe of Windows whose server reads messages. A pipe has no half-close: engines on Windows take an empty
 * message for the end of what they are sent, and go on answering.
 */
export class MessagePipe extends Socket {
  /** `net.connect` with such a socket. */
  static to(options: NetConnectOpts): MessagePipe {
    return new MessagePipe().connect(options);
  }

  override _final(callback: (error?: Error | null) => void): void {
    this._write(NOTHING, 'buffer' as BufferEncoding, callback); // what Node's own streams call bytes
  }
}
