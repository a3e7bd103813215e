import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** One connection through a relay. */
interface Pair {
  near: Socket;
  far: Socket;
  /** What comes on it is lost, for good: the bytes that follow would belong to nothing. */
  isLost: boolean;
  /** Ends that were met while it stood still: Node tells them of paused sockets, too. */
  ends: (() => void)[];
}

/**
 * A network of its own between two ends: a port on loopback that leads to another one. It can stand still, lose
 * everything, and lead elsewhere. Ends with the test.
 */
export class TcpRelay {
  readonly #server = createServer({ allowHalfOpen: true }, (near) => this.#accept(near));
  readonly #pairs = new Set<Pair>();
  #destination: number;
  #mode: 'passing' | 'frozen' | 'dropping' = 'passing';
  /** Clients that came while it stood still. */
  #waiting: Socket[] = [];
  /** Bytes that came from either end. */
  bytes = { fromNear: 0, fromFar: 0 };

  private constructor(destination: number) {
    this.#destination = destination;
  }

  static async to(destination: number): Promise<TcpRelay> {
    const relay = new TcpRelay(destination);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    onTestFinished(() => {
      relay.leadTo(0);
      relay.#server.close();
    });
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Cuts every connection; those that follow are led there. */
  leadTo(destination: number): void {
    this.#destination = destination;
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
    for (const near of this.#waiting.splice(0)) near.destroy();
  }

  /** Nothing passes any more, and no connection closes: neither end is told anything. */
  freeze(): void {
    this.#mode = 'frozen';
    for (const { near, far } of this.#pairs) {
      near.pause();
      far.pause();
    }
  }

  /** Takes everything that comes and loses it. */
  drop(): void {
    this.#mode = 'dropping';
    for (const pair of this.#pairs) pair.isLost = true;
  }

  /** Passes bytes again; what was held comes out, what was lost does not. */
  pass(): void {
    this.#mode = 'passing';
    for (const { near, far, ends } of this.#pairs) {
      near.resume();
      far.resume();
      for (const end of ends.splice(0)) end();
    }
    for (const near of this.#waiting.splice(0)) this.#accept(near);
  }

  #accept(near: Socket): void {
    near.on('error', () => {});
    if (this.#mode === 'frozen') {
      this.#waiting.push(near.pause());
      return;
    }
    const far = connect({ port: this.#destination, host: '127.0.0.1', allowHalfOpen: true });
    far.on('error', () => near.destroy());
    const pair: Pair = { near, far, isLost: this.#mode === 'dropping', ends: [] };
    this.#pairs.add(pair);
    this.#carry(pair, near, far, 'fromNear');
    this.#carry(pair, far, near, 'fromFar');
  }

  #carry(pair: Pair, from: Socket, to: Socket, count: 'fromNear' | 'fromFar'): void {
    from.on('data', (bytes: Buffer) => {
      this.bytes[count] += bytes.length;
      if (!pair.isLost) to.write(bytes);
    });
    const passOn = (end: () => void) => {
      if (this.#mode === 'frozen') pair.ends.push(end);
      else if (!pair.isLost) end();
    };
    from.once('end', () => passOn(() => to.end()));
    from.once('close', () => passOn(() => to.destroySoon()));
    to.once('close', () => from.destroyed && this.#pairs.delete(pair));
  }
}
