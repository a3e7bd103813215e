import { readSync } from 'node:fs';
import { type NetConnectOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { ViewOutlet, type ViewSink, type ViewSource } from './view-source.ts';

/** What one read returns at most. */
const READ_BYTES = 65_536;
/** One for all sockets: a view is done with before the next read begins. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** What Node's own constructor takes beyond its documentation: the handle of another socket. */
interface Adoptable {
  handle?: unknown;
}

/** A socket that reads into one buffer, and hands that over; see `ViewSource`. */
export class ViewSocket extends Socket implements ViewSource {
  readonly #outlet: ViewOutlet;

  constructor(options: SocketConstructorOpts & Adoptable = {}) {
    let outlet: ViewOutlet | undefined;
    const callback = (length: number) => outlet?.give(shared.subarray(0, length)) ?? true;
    super({ ...options, onread: { buffer: shared, callback } } as SocketConstructorOpts);
    this.#outlet = outlet = new ViewOutlet(this);
  }

  /** `net.connect` with such a socket. */
  static to(options: NetConnectOpts): ViewSocket {
    return new ViewSocket(options as SocketConstructorOpts).connect(options);
  }

  handViewsTo(sink: ViewSink | undefined): void {
    this.#outlet.handTo(sink);
  }

  /** A write that fails ends the socket at once, but what the other side sent before it left is still there. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if ((error as NodeJS.ErrnoException | null)?.code === 'EPIPE') this.#readToTheEnd();
    super._destroy(error, callback);
  }

  #readToTheEnd(): void {
    const descriptor = (this as unknown as Insides)._handle?.fd ?? -1;
    if (descriptor < 0) return;
    try {
      // Bounded by what the kernel holds: nobody writes to it any more.
      for (let length: number; (length = readSync(descriptor, shared)) > 0; ) {
        this.#outlet.last(shared.subarray(0, length));
      }
    } catch {
      // Nothing is left, or the connection was reset.
    }
  }
}

/** What Node keeps of a socket. */
interface Insides {
  _handle?: { useUserBuffer?: unknown; fd?: number } | null;
}

/**
 * A socket that Node made, for a server or for a child process, as a ViewSocket. Neither has an option for
 * that, so the handle moves from the one to the other; where Node does not show one, the socket stays what it
 * is and works as well, if slower. Nothing may have been read from it, and it is not to be used any more.
 */
export function asViewSocket(made: Socket): Socket {
  const insides = made as unknown as Insides;
  const handle = insides._handle;
  if (typeof handle?.useUserBuffer !== 'function' || made.readableLength > 0) return made;
  insides._handle = null;
  const { allowHalfOpen } = made;
  const socket = new ViewSocket({ handle, allowHalfOpen });
  // Its server counts it among its connections until then, its child process among its streams.
  socket.once('close', () => made.destroy());
  return socket;
}
