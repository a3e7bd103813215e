import type { Socket } from 'node:net';
import { HostMuxer, type HostMuxerOptions } from '@gpg-bridge/core/mux/host-muxer';
import type { MuxerOptions } from '@gpg-bridge/core/mux/muxer';
import type { MuxStream } from '@gpg-bridge/core/mux/stream';
import { TargetMuxer } from '@gpg-bridge/core/mux/target-muxer';
import { onTestFinished } from 'vitest';
import { socketPair } from './socket-pair.ts';

/** What a target says of itself. */
export const FACTS = { runtime: 'node', system: 'linux', uid: 1_000, home: '/home/u', boot: 'b' };

/** A host's end over one real connection (`near`), and the raw other end of it. */
export async function hostAndRaw(
  options?: HostMuxerOptions,
): Promise<{ host: HostMuxer; raw: Socket; near: Socket }> {
  const [near, raw] = await socketPair();
  const host = new HostMuxer({ input: near, output: near }, options);
  onTestFinished(() => host.close());
  return { host, raw, near };
}

/** The same for a target's end. */
export async function targetAndRaw(
  options?: MuxerOptions,
): Promise<{ target: TargetMuxer; raw: Socket; near: Socket }> {
  const [near, raw] = await socketPair();
  const target = new TargetMuxer({ input: near, output: near }, options);
  onTestFinished(() => target.close());
  return { target, raw, near };
}

/** Lets the event loop turn until something has come about. */
export async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

/** Both ends of a bridge, joined by a real connection, READY said and heard. */
export async function bridge(
  options: { host?: HostMuxerOptions; target?: MuxerOptions } = {},
): Promise<Bridge> {
  const [near, far] = await socketPair();
  const host = new HostMuxer({ input: near, output: near }, options.host);
  const target = new TargetMuxer({ input: far, output: far }, options.target);
  onTestFinished(() => {
    host.close();
    target.close();
  });
  const ready = new Promise((resolve) => host.once('ready', resolve));
  target.ready(FACTS);
  await ready;
  return new Bridge(host, target);
}

class Bridge {
  readonly #expected = new Map<number, (stream: MuxStream) => void>();

  constructor(
    readonly host: HostMuxer,
    readonly target: TargetMuxer,
  ) {
    host.on('stream', (stream) => this.#expected.get(stream.id)?.(stream));
  }

  /** Opens a stream; resolves with both ends of it. */
  async open(): Promise<{ near: MuxStream; far: MuxStream }> {
    const near = this.target.open('gpg-agent');
    const far = await new Promise<MuxStream>((resolve) => this.#expected.set(near.id, resolve));
    this.#expected.delete(near.id);
    return { near, far };
  }
}
