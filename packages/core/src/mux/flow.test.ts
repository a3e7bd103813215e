import { once } from 'node:events';
import { liveBytes } from '@gpg-bridge/test-support/memory';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { readStream, StreamRecorder } from '@gpg-bridge/test-support/stream-recorder';
import { describe, expect, it } from 'vitest';
import { INITIAL_CREDIT, MAX_DATA } from './frame.ts';
import type { MuxStream } from './stream.ts';

/** Sends for as long as the stream is open and takes it; counts what the stream accepted. */
function flood(stream: MuxStream): { accepted: number } {
  const count = { accepted: 0 };
  const more = (): void => {
    for (let room = true; room && stream.open; ) {
      room = stream.send(Buffer.alloc(MAX_DATA));
      count.accepted += MAX_DATA;
    }
  };
  stream.attach({ take: () => true, drained: more, eof: () => {}, ended: () => {} });
  more();
  return count;
}

/** Echoes `turns` messages over a stream, one at a time, and checks each byte. */
function roundTrips(
  near: MuxStream,
  far: MuxStream,
  turns: number,
  size: number,
  onData = () => {},
): Promise<void> {
  const nothing = (): void => {};
  far.attach({
    take: (bytes) => far.send(bytes),
    drained: () => far.resumeDelivery(),
    eof: nothing,
    ended: nothing,
  });
  return new Promise((resolve, reject) => {
    let received = 0;
    let turn = 1;
    near.attach({
      take(bytes) {
        onData();
        if (!bytes.every((byte) => byte === turn)) reject(new Error(`wrong bytes in turn ${turn}`));
        received += bytes.length;
        if (received < turn * size) return true;
        if (turn === turns) resolve();
        else near.send(Buffer.alloc(size, ++turn));
        return true;
      },
      drained: nothing,
      eof: nothing,
      ended: () => reject(new Error(`closed in turn ${turn}`)),
    });
    near.send(Buffer.alloc(size, turn));
  });
}

describe('credit', () => {
  it.each(['near', 'far'] as const)(
    'one reader (%s) that is stuck and 50 busy streams: memory is bounded and the busy ones go on',
    async (stuckEnd) => {
      const ends = await bridge();
      const stuck = await ends.open();
      const reader = stuck[stuckEnd];
      const writer = stuckEnd === 'near' ? stuck.far : stuck.near;
      const flooded = flood(writer);
      await until(() => reader.undelivered >= INITIAL_CREDIT);
      let most = 0;
      const sample = (): void => {
        for (const muxer of [ends.host, ends.target]) {
          const { inbound, outbound } = muxer.stats.held;
          most = Math.max(most, inbound + outbound);
        }
      };
      const busy = await Promise.all(Array.from({ length: 50 }, () => ends.open()));
      await Promise.all(busy.map(({ near, far }) => roundTrips(near, far, 20, 20_000, sample)));
      // The busy streams have one message each on the way; the stuck one its credit at one end, and at the
      // other what its writer was allowed to hand over before it was held back.
      expect(most).toBeLessThan(INITIAL_CREDIT + MAX_DATA + 50 * 20_000 * 2);
      expect(reader.undelivered).toBe(INITIAL_CREDIT);
      expect(writer.unsent).toBeLessThanOrEqual(MAX_DATA);
      expect(flooded.accepted).toBeLessThanOrEqual(INITIAL_CREDIT + MAX_DATA);
      expect(reader.open && writer.open).toBe(true);
    },
  );

  it('a stuck reader that reads again gets everything, in order', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const bytes = Buffer.from(Uint32Array.from({ length: 600_000 }, (_, at) => at).buffer);
    near.send(bytes);
    near.finish();
    await until(() => far.undelivered >= INITIAL_CREDIT);
    expect((await readStream(far)).equals(bytes)).toBe(true);
  });

  it('small round trips need no WINDOW frame; half a window of them needs one', async () => {
    const { host, raw } = await hostAndRaw();
    const opened = once(host, 'stream');
    const ready = Buffer.from('{"version":4}');
    const header = Buffer.from('000000120500000000', 'hex');
    raw.write(Buffer.concat([header, ready, Buffer.from('0000000e02000000016770672d6167656e74', 'hex')]));
    const [stream] = (await opened) as [MuxStream];
    new StreamRecorder(stream);
    const frame = Buffer.concat([Buffer.from('000080050100000001', 'hex'), Buffer.alloc(32_768)]);
    for (let turn = 0; turn < 3; turn += 1) raw.write(frame);
    await until(() => host.stats.bytes.received === 3 * 32_768);
    stream.send(Buffer.from('x'));
    expect((await readExactly(raw, 10)).toString('hex')).toBe('00000006010000000178');
    raw.write(frame);
    expect((await readExactly(raw, 13)).toString('hex')).toBe('00000009070000000100020000');
    expect(stream.receiveCredit).toBe(INITIAL_CREDIT);
  });

  it('no byte is sent beyond it, and a grant is used to the last byte', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    const recorder = new StreamRecorder(stream);
    await readExactly(raw, 18);
    stream.send(Buffer.alloc(INITIAL_CREDIT + 1_000, 'd'));
    for (let left = INITIAL_CREDIT; left > 0; left -= MAX_DATA) await readExactly(raw, 9 + MAX_DATA);
    expect(stream.unsent).toBe(1_000);
    raw.write(Buffer.from('0000000907000000010000000a', 'hex'));
    const frame = await readExactly(raw, 19);
    expect(frame.subarray(0, 9).toString('hex')).toBe('0000000f0100000001');
    raw.write(Buffer.from('000000090700000001000f0000', 'hex'));
    expect((await readExactly(raw, 9 + 990)).readUInt32BE(0)).toBe(995);
    expect(stream.unsent).toBe(0);
    expect(recorder.calls).toEqual(['drained']);
  });

  it('is not given for what nobody has taken', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    await readExactly(raw, 18);
    raw.write(Buffer.concat([Buffer.from('000400050100000001', 'hex'), Buffer.alloc(INITIAL_CREDIT)]));
    await until(() => stream.undelivered === INITIAL_CREDIT);
    expect(stream.receiveCredit).toBe(0);
    let taken = 0;
    const recorder = new StreamRecorder(stream, ({ length }) => {
      taken += length;
      return taken < INITIAL_CREDIT / 2;
    });
    expect(recorder.length).toBeLessThan(INITIAL_CREDIT);
    expect(stream.undelivered).toBe(INITIAL_CREDIT - recorder.length);
    const frame = await readExactly(raw, 13);
    expect(frame.subarray(0, 9).toString('hex')).toBe('000000090700000001');
    expect(frame.readUInt32BE(9)).toBe(recorder.length);
    expect(stream.receiveCredit).toBe(recorder.length);
    // The rest is not worth a frame: the next one is data.
    taken = -INITIAL_CREDIT;
    stream.resumeDelivery();
    expect(stream.undelivered).toBe(0);
    stream.send(Buffer.from('x'));
    expect((await readExactly(raw, 10)).toString('hex')).toBe('00000006010000000178');
  });

  it('of any size is taken, and what it adds up to stays a number that can be used', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    await readExactly(raw, 18);
    for (let turn = 0; turn < 3; turn += 1) raw.write(Buffer.from('000000090700000001ffffffff', 'hex'));
    const called = once(target, 'input');
    raw.write(Buffer.from('000000060400000000' + '4b', 'hex'));
    await called;
    stream.send(Buffer.alloc(1_000_000));
    stream.finish();
    const frames = Math.ceil(1_000_000 / MAX_DATA);
    await readExactly(raw, frames * 9 + 1_000_000);
    expect((await readExactly(raw, 9)).toString('hex')).toBe('000000050300000001');
  });
});

describe('memory', () => {
  it('of an idle stream is a few KiB at both ends together', async () => {
    const ends = await bridge();
    const streams = [await ends.open()];
    const before = liveBytes();
    streams.push(...(await Promise.all(Array.from({ length: 1_000 }, () => ends.open()))));
    await Promise.all(streams.map(({ near, far }) => roundTrips(near, far, 1, 100)));
    expect((liveBytes() - before) / 1_000).toBeLessThan(16_384);
  });

  it('is where it was after many streams have come and gone', async () => {
    const ends = await bridge();
    const session = async (): Promise<void> => {
      const { near, far } = await ends.open();
      await roundTrips(near, far, 1, 200);
      near.finish();
      await until(() => !far.open);
    };
    for (let turn = 0; turn < 500; turn += 1) await session();
    const before = liveBytes();
    for (let turn = 0; turn < 2_000; turn += 1) await session();
    expect(liveBytes() - before).toBeLessThan(1_048_576);
    expect(ends.host.stats.streams).toEqual({ open: 0, total: 2_500 });
  });
});
