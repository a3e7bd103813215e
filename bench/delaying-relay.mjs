import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** A port on loopback that leads to another one and holds every byte for `delayMs` on its way, in each direction. */
export class DelayingRelay {
  delayMs = 0;
  #sockets = new Set();
  #server;

  static async to(port) {
    const relay = new DelayingRelay();
    relay.#server = createServer({ noDelay: true }, (near) => {
      const far = connect({ port, host: '127.0.0.1', noDelay: true });
      relay.#carry(near, far);
      relay.#carry(far, near);
    });
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    return relay;
  }

  get port() {
    return this.#server.address().port;
  }

  #carry(from, to) {
    this.#sockets.add(from);
    from.on('error', () => {});
    from.on('data', (bytes) => this.#later(() => to.write(bytes)));
    from.once('close', () => {
      this.#sockets.delete(from);
      this.#later(() => to.destroySoon());
    });
  }

  /** Timers of one duration run in the order in which they were set. */
  #later(work) {
    if (this.delayMs === 0) work();
    else setTimeout(work, this.delayMs);
  }

  stop() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
