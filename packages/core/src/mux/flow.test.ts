import { once } from 'node:events';
import { Readable } from 'node:stream';
import { liveBytes } from '@gpg-bridge/test-support/memory';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import type { BridgeError } from '../errors.ts';
import { INITIAL_CREDIT, MAX_DATA } from './frame.ts';
import type { MuxStream } from './stream.ts';

/** What one stream may cost at the end that receives: its credit, and one piece in Node's buffer. */
const STREAM_BYTES = INITIAL_CREDIT + MAX_DATA;
const NO_WINDOW = { target: { features: [] } };

/** Sends for as long as the stream is open; counts what the stream accepted. */
function flood(stream: MuxStream): { accepted: number } {
  const count = { accepted: 0 };
  Readable.from(
    (function* () {
      while (stream.open) {
        count.accepted += MAX_DATA;
        yield Buffer.alloc(MAX_DATA);
      }
    })(),
    { objectMode: true, highWaterMark: 1 },
  ).pipe(stream);
  return count;
}

/** Echoes `turns` messages over a stream, one at a time, and checks each byte. */
function roundTrips(near: MuxStream, far: MuxStream, turns: number, size: number): Promise<void> {
  far.on('data', (bytes) => far.write(bytes));
  return new Promise((resolve, reject) => {
    let received = 0;
    let turn = 1;
    near.on('data', (bytes: Buffer) => {
      if (!bytes.every((byte) => byte === turn)) reject(new Error(`wrong bytes in turn ${turn}`));
      received += bytes.length;
      if (received < turn * size) return;
      if (turn === turns) resolve();
      else near.write(Buffer.alloc(size, ++turn));
    });
    near.once('close', () => reject(new Error(`closed in turn ${turn}`)));
    near.write(Buffer.alloc(size, turn));
  });
}

describe('with credit', () => {
  it.each(['near', 'far'] as const)(
    'one reader (%s) that is stuck and 50 busy streams: memory is bounded and the busy ones go on',
    async (stuckEnd) => {
      const ends = await bridge();
      expect(ends.host.flowControl).toBe(true);
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
      await Promise.all(
        busy.map(async ({ near, far }) => {
          near.on('data', sample);
          await roundTrips(near, far, 20, 20_000);
        }),
      );
      // The busy streams have one message each on the way; the stuck one its credit at one end, and at the
      // other what its writer was allowed to hand over before it was held back.
      expect(most).toBeLessThan(2 * STREAM_BYTES + 50 * 20_000 * 2);
      expect(reader.undelivered).toBeLessThanOrEqual(STREAM_BYTES);
      expect(writer.unsent).toBeLessThanOrEqual(2 * MAX_DATA);
      expect(flooded.accepted).toBeLessThanOrEqual(INITIAL_CREDIT + 5 * MAX_DATA);
      expect(reader.open && writer.open).toBe(true);
    },
  );

  it('a stuck reader that reads again gets everything, in order', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const bytes = Buffer.from(Uint32Array.from({ length: 600_000 }, (_, at) => at).buffer);
    near.end(bytes);
    await until(() => far.undelivered >= INITIAL_CREDIT);
    const chunks: Buffer[] = [];
    for await (const chunk of far) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
  });

  it('small round trips need no WINDOW frame; half a window of them needs one', async () => {
    const { host, raw } = await hostAndRaw();
    const opened = once(host, 'stream');
    const ready = Buffer.from('{"features":["window"]}');
    const header = Buffer.from('0000001c0500000000', 'hex');
    raw.write(Buffer.concat([header, ready, Buffer.from('0000000e02000000016770672d6167656e74', 'hex')]));
    await readExactly(raw, 13); // the announcement
    const [stream] = (await opened) as [MuxStream];
    stream.on('data', () => {});
    const frame = Buffer.concat([Buffer.from('000080050100000001', 'hex'), Buffer.alloc(32_768)]);
    for (let turn = 0; turn < 3; turn += 1) raw.write(frame);
    await until(() => host.stats.bytes.received === 3 * 32_768);
    stream.write('x');
    expect((await readExactly(raw, 10)).toString('hex')).toBe('00000006010000000178');
    raw.write(frame);
    expect((await readExactly(raw, 13)).toString('hex')).toBe('00000009070000000100020000');
    expect(stream.receiveCredit).toBe(INITIAL_CREDIT);
  });

  it('no byte is sent beyond it, and a grant is used to the last byte', async () => {
    const { target, raw } = await targetAndRaw();
    raw.write(Buffer.from('00000009070000000000000000', 'hex'));
    await until(() => target.flowControl);
    const stream = target.open('gpg-agent');
    await readExactly(raw, 18);
    stream.write(Buffer.alloc(INITIAL_CREDIT + 1_000, 'd'));
    for (let left = INITIAL_CREDIT; left > 0; left -= MAX_DATA) await readExactly(raw, 9 + MAX_DATA);
    expect(stream.unsent).toBeGreaterThan(0);
    raw.write(Buffer.from('0000000907000000010000000a', 'hex'));
    const frame = await readExactly(raw, 19);
    expect(frame.subarray(0, 9).toString('hex')).toBe('0000000f0100000001');
    raw.write(Buffer.from('000000090700000001000f0000', 'hex'));
    expect((await readExactly(raw, 9 + 990)).readUInt32BE(0)).toBe(995);
    await until(() => stream.unsent === 0);
  });

  it('a host that announces late finds the credit it is owed', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent').resume();
    await readExactly(raw, 18);
    raw.write(Buffer.concat([Buffer.from('000200050100000001', 'hex'), Buffer.alloc(131_072)]));
    await until(() => target.stats.bytes.received === 131_072);
    expect(target.flowControl).toBe(false);
    raw.write(Buffer.from('00000009070000000000000000', 'hex'));
    expect((await readExactly(raw, 13)).toString('hex')).toBe('00000009070000000100020000');
    expect(stream.receiveCredit).toBe(INITIAL_CREDIT);
  });
});

describe('before the host has said whether it gives credit', () => {
  it('a target keeps to what every stream starts with, and is freed by a host that gives none', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    stream.write(Buffer.alloc(INITIAL_CREDIT + 5));
    await readExactly(raw, 18 + INITIAL_CREDIT + (INITIAL_CREDIT / MAX_DATA) * 9);
    expect(stream.unsent).toBeGreaterThan(0);
    raw.write(Buffer.from('00000006010000000178', 'hex'));
    expect((await readExactly(raw, 14)).readUInt32BE(0)).toBe(10);
  });
});

describe('without credit', () => {
  it('a stream with more than 8 MiB unread is closed, the others go on', async () => {
    const ends = await bridge(NO_WINDOW);
    expect(ends.host.flowControl).toBe(false);
    const stuck = await ends.open();
    const other = await ends.open();
    const closed = once(stuck.near.resume(), 'close');
    let most = 0;
    const watch = roundTrips(other.near, other.far, 50, 10_000);
    other.near.on('data', () => {
      most = Math.max(most, ends.host.stats.held.inbound);
    });
    flood(stuck.near);
    await closed;
    await watch;
    expect(stuck.far.failure).toMatchObject({ code: 'SESSION_ENDED' } satisfies Partial<BridgeError>);
    expect(most).toBeLessThanOrEqual(8 * 1_048_576 + 100_000);
    expect(ends.host.stats.held.inbound).toBe(0);
    await roundTrips(...(await ends.open().then(({ near, far }) => [near, far] as const)), 3, 100);
  });

  it('8 MiB unread are still delivered', async () => {
    const ends = await bridge(NO_WINDOW);
    const { near, far } = await ends.open();
    near.end(Buffer.alloc(8 * 1_048_576, 'x'));
    await until(() => !far.open);
    expect(far.failure).toBeUndefined();
    let total = 0;
    for await (const chunk of far) total += (chunk as Buffer).length;
    expect(total).toBe(8 * 1_048_576);
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
      near.end();
      await Promise.all([once(near, 'close'), once(far, 'close')]);
    };
    for (let turn = 0; turn < 500; turn += 1) await session();
    const before = liveBytes();
    for (let turn = 0; turn < 2_000; turn += 1) await session();
    expect(liveBytes() - before).toBeLessThan(1_048_576);
    expect(ends.host.stats.streams).toEqual({ open: 0, total: 2_500 });
  });
});
