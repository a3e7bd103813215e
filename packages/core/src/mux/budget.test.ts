import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { StreamRecorder } from '@gpg-bridge/test-support/stream-recorder';
import { CLOSE, DATA, OPEN, READY, TOLD, wireFrame } from '@gpg-bridge/test-support/wire';
import { describe, expect, it } from 'vitest';
import { INITIAL_CREDIT } from './frame.ts';
import type { HostMuxer, HostMuxerOptions } from './host-muxer.ts';
import type { MuxStream } from './stream.ts';

const MIB = 1_048_576;
/** What one read of the carrier brings at most. */
const READ_BYTES = 65_536;

/** What the client of a stream sends: as much as it may, and not the same as another's. */
const message = (id: number): Buffer => Buffer.alloc(INITIAL_CREDIT, Uint8Array.of(id, 7, 255 - id));

interface Flooded {
  host: HostMuxer;
  near: Socket;
  raw: Socket;
  streams: MuxStream[];
}

/** A host to which so many streams have sent all they may, and nobody has taken a byte. */
async function flooded(count: number, options: HostMuxerOptions): Promise<Flooded> {
  const { host, raw, near } = await hostAndRaw(options);
  const streams: MuxStream[] = [];
  host.on('stream', (stream) => streams.push(stream));
  raw.write(wireFrame(READY, 0, '{"version":4}'));
  for (let id = 1; id <= count; id += 1) raw.write(wireFrame(OPEN, id, 'gpg-agent'));
  for (let id = 1; id <= count; id += 1) raw.write(wireFrame(DATA, id, message(id)));
  await until(() => streams.length === count && near.isPaused());
  return { host, near, raw, streams };
}

describe('what is held for all streams together', () => {
  it('stops the reading of the carrier at its limit, and no byte is lost when it goes on', async () => {
    const { host, near, raw, streams } = await flooded(40, { maxHeld: MIB });
    expect(host.stats.held.inbound).toBeGreaterThanOrEqual(MIB);
    expect(host.stats.held.inbound).toBeLessThanOrEqual(MIB + READ_BYTES);
    // The kernel holds some of it, the sender the rest, and none of that comes in.
    expect(raw.writableLength).toBeGreaterThan(0);
    const { received } = host.stats.bytes;
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(near.isPaused()).toBe(true);
    expect(host.stats.bytes.received).toBe(received);

    let most = 0;
    const recorders = streams.map(
      (stream) =>
        new StreamRecorder(stream, () => {
          most = Math.max(most, host.stats.held.inbound);
          return true;
        }),
    );
    await until(() => recorders.every(({ length }) => length === INITIAL_CREDIT));
    for (const [at, { bytes }] of recorders.entries()) expect(bytes.equals(message(at + 1))).toBe(true);
    expect(most).toBeLessThanOrEqual(MIB + READ_BYTES);
    expect(host.stats.held.inbound).toBe(0);
    expect(near.isPaused()).toBe(false);
  });

  it('closes the streams that hold the most when nobody takes anything, and the others go on', async () => {
    const { host, near, raw, streams } = await flooded(12, { maxHeld: MIB, stuckMs: 1 });
    // The last ones have sent what was still on its way; whoever holds less than the most stays open.
    await until(() => !near.isPaused() && host.stats.held.inbound < MIB);
    expect(streams.some(({ open }) => open)).toBe(true);
    const closed = streams.find(({ open }) => !open);
    expect(closed?.failure).toMatchObject({ code: 'SESSION_ENDED' });
    const next = once(host, 'stream');
    raw.write(wireFrame(OPEN, 100, 'gpg-agent'));
    raw.write(wireFrame(DATA, 100, 'served'));
    const [served] = (await next) as [MuxStream];
    const taker = new StreamRecorder(served);
    await until(() => taker.bytes.toString() === 'served');
  });

  it('counts what a target tells of its answers, of which a stream takes as much as a client can cause', async () => {
    const { host, raw } = await hostAndRaw({ maxHeld: MIB });
    const streams: MuxStream[] = [];
    host.on('stream', (stream) => streams.push(stream));
    raw.write(wireFrame(READY, 0, '{"version":4}'));
    for (const id of [1, 2]) raw.write(wireFrame(OPEN, id, 'gpg-agent greeted'));
    raw.write(wireFrame(TOLD, 1, Buffer.alloc(8_192)));
    for (let note = 0; note < 3; note++) raw.write(wireFrame(TOLD, 2, Buffer.alloc(8_192)));
    await until(() => streams[1]?.open === false);
    expect(streams[1]!.failure).toMatchObject({ code: 'SESSION_ENDED' });
    expect(streams[0]!.open).toBe(true);
    expect(host.stats.held.inbound).toBe(8_192);
    expect(streams[0]!.takeNotes()).toHaveLength(1);
    expect(host.stats.held.inbound).toBe(0);
  });

  it('holds for what a target tells on hundreds of streams, too', async () => {
    const { host, raw } = await hostAndRaw({ maxHeld: MIB, stuckMs: 1 });
    let closed = 0;
    host.on('stream', (stream) => stream.onAbandoned(() => void (closed += 1)));
    raw.write(wireFrame(READY, 0, '{"version":4}'));
    let most = 0;
    for (let id = 1; id <= 500; id += 1) {
      raw.write(wireFrame(OPEN, id, 'gpg-agent greeted'));
      raw.write(wireFrame(TOLD, id, Buffer.alloc(8_192)));
    }
    await until(() => {
      most = Math.max(most, host.stats.held.inbound);
      return host.stats.streams.total === 500;
    });
    expect(most).toBeLessThanOrEqual(MIB + READ_BYTES);
    expect(closed).toBeGreaterThan(300);
  });

  it('lets the carrier be read again as soon as one of them has taken something', async () => {
    const { host, near, streams } = await flooded(12, { maxHeld: MIB });
    const stopped = host.stats.bytes.received;
    const taker = new StreamRecorder(streams[0]!);
    await until(() => near.isPaused() && host.stats.bytes.received > stopped);
    expect(taker.bytes.equals(message(1))).toBe(true);
    expect(host.stats.bytes.received - stopped).toBeGreaterThanOrEqual(INITIAL_CREDIT - READ_BYTES);
    expect(host.stats.held.inbound).toBeLessThanOrEqual(MIB + READ_BYTES);
  });

  it('counts nothing that is taken at once, and nothing of what it takes after a pause', async () => {
    const ends = await bridge({ host: { maxHeld: 1 }, target: { maxHeld: 1 } });
    const pairs = await Promise.all(Array.from({ length: 5 }, () => ends.open()));
    const bytes = Buffer.alloc(1_000_000, 'abc');
    const recorders = pairs.flatMap(({ near, far }) => [new StreamRecorder(near), new StreamRecorder(far)]);
    for (const { near, far } of pairs) {
      near.send(bytes);
      far.send(bytes);
    }
    await until(() => recorders.every(({ length }) => length === bytes.length));
    expect(recorders.every((recorder) => recorder.bytes.equals(bytes))).toBe(true);

    const { near, far } = await ends.open();
    const slow = new StreamRecorder(far, () => false);
    near.send(bytes);
    while (slow.length < bytes.length) {
      await until(() => far.undelivered > 0 || slow.length === bytes.length);
      far.resumeDelivery();
    }
    expect(slow.bytes.equals(bytes)).toBe(true);
    expect(ends.host.stats.held.inbound).toBe(0);
  });

  it('is less by all that a stream held when it is discarded, open or closed', async () => {
    const { host, near, raw, streams } = await flooded(4, { maxHeld: MIB });
    raw.write(Buffer.concat([wireFrame(CLOSE, 1), wireFrame(OPEN, 5, 'gpg-agent')]));
    expect(near.isPaused()).toBe(true);
    streams[1]!.discard();
    await until(() => streams.length === 5);
    expect(host.stats.held.inbound).toBe(3 * INITIAL_CREDIT);
    expect(streams[0]!.open).toBe(false);
    expect(streams[0]!.undelivered).toBe(INITIAL_CREDIT);
    streams[0]!.discard();
    expect(host.stats.held.inbound).toBe(2 * INITIAL_CREDIT);
    for (const stream of streams) stream.discard();
    expect(host.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: 0 } });
  });

  it('is less by what a stream held that the bridge gave up', async () => {
    const { host, raw, streams } = await flooded(2, { maxHeld: 2 * INITIAL_CREDIT });
    const taker = new StreamRecorder(streams[1]!);
    expect(taker.length).toBe(INITIAL_CREDIT);
    raw.write(wireFrame(DATA, 1, 'beyond the credit'));
    await until(() => !streams[0]!.open);
    expect(host.stats.held.inbound).toBe(0);
  });

  it('is limited in a target, too', async () => {
    const { target, raw, near } = await targetAndRaw({ maxHeld: 100_000 });
    const stream = target.open('gpg-agent');
    const bytes = Buffer.alloc(INITIAL_CREDIT, 'abcdefg');
    raw.write(wireFrame(DATA, 1, bytes));
    await until(() => near.isPaused());
    expect(target.stats.held.inbound).toBeLessThanOrEqual(100_000 + READ_BYTES);
    const recorder = new StreamRecorder(stream);
    await until(() => recorder.length === bytes.length);
    expect(recorder.bytes.equals(bytes)).toBe(true);
  });

  it('does not stop the reading of a carrier whose bridge has ended', async () => {
    const { host, raw, near } = await hostAndRaw({ maxHeld: 1_000 });
    host.on('stream', (stream) => {
      if (stream.id === 2) host.close();
    });
    // In one chunk: what fills the budget, and the frame with which the host ends the bridge.
    raw.write(
      Buffer.concat([
        wireFrame(READY, 0, '{"version":4}'),
        wireFrame(OPEN, 1, 'gpg-agent'),
        wireFrame(DATA, 1, Buffer.alloc(2_000)),
        wireFrame(OPEN, 2, 'gpg-agent'),
      ]),
    );
    await once(host, 'close');
    expect(host.stats.held.inbound).toBe(2_000);
    const gone = once(near, 'end');
    raw.end(Buffer.alloc(4 * MIB));
    await gone;
  });

  it('does not keep a bridge from its end', async () => {
    const { host, near, streams, raw } = await flooded(8, { maxHeld: MIB });
    host.close();
    const gone = once(near, 'end');
    raw.end();
    await gone;
    // What was received is still there to be taken.
    const recorder = new StreamRecorder(streams[0]!);
    expect(recorder.bytes.equals(message(1))).toBe(true);
    expect(recorder.over).toBe(true);
  });
});

describe('streams that closed with bytes nobody has taken', () => {
  it('count against no limit of streams, and against the budget until they are discarded', async () => {
    const limits = { maxStreams: 4, maxHeld: MIB };
    const ends = await bridge({ host: limits, target: limits });
    const closed: MuxStream[] = [];
    for (let turn = 0; turn < 20; turn += 1) {
      const { near, far } = await ends.open();
      near.send(Buffer.alloc(1_000, turn));
      near.finish();
      closed.push(far);
      await until(() => !far.open);
    }
    expect(ends.host.stats).toMatchObject({ streams: { open: 0, total: 20 }, held: { inbound: 20_000 } });
    const another = await Promise.all([1, 2, 3, 4].map(() => ends.open()));
    expect(ends.host.stats.streams.open).toBe(4);
    expect(ends.host.hasRoom).toBe(false);
    const recorder = new StreamRecorder(closed[7]!);
    expect(recorder.bytes).toEqual(Buffer.alloc(1_000, 7));
    expect(recorder.over).toBe(true);
    for (const stream of closed) stream.discard();
    expect(ends.host.stats.held.inbound).toBe(0);
    const taker = new StreamRecorder(another[0]!.far);
    another[0]!.near.send(Buffer.from('works'));
    await until(() => taker.length === 5);
  });

  it('stop the reading when they fill the budget, until they are taken or discarded', async () => {
    const { host, raw, near } = await hostAndRaw({ maxHeld: MIB, maxStreams: 2 });
    const streams: MuxStream[] = [];
    host.on('stream', (stream) => streams.push(stream));
    raw.write(wireFrame(READY, 0, '{"version":4}'));
    const count = 10;
    for (let id = 1; id <= count; id += 1) {
      raw.write(wireFrame(OPEN, id, 'gpg-agent'));
      raw.write(wireFrame(DATA, id, message(id)));
      raw.write(wireFrame(CLOSE, id));
    }
    await until(() => near.isPaused());
    expect(streams.length).toBeLessThan(count);
    for (let at = 0; at < count; at += 1) {
      await until(() => streams[at]?.open === false);
      if (at % 2) streams[at]!.discard();
      else expect(new StreamRecorder(streams[at]!).bytes.equals(message(at + 1))).toBe(true);
    }
    expect(host.stats).toMatchObject({ streams: { open: 0, total: count }, held: { inbound: 0 } });
    expect(near.isPaused()).toBe(false);
    const opened = once(host, 'stream') as Promise<[MuxStream]>;
    raw.write(wireFrame(OPEN, 99, 'gpg-agent'));
    (await opened)[0].finish();
    expect(await readExactly(raw, 9)).toEqual(wireFrame(CLOSE, 99));
  });
});
