import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import type { BridgeError } from '../errors.ts';
import { HostMuxer } from './host-muxer.ts';
import type { Muxer } from './muxer.ts';
import type { MuxStream } from './stream.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const text = (value: string): string => Buffer.from(value).toString('hex');

const READY_V1 = '00000005 05 00000000';
const READY_WINDOW = `0000001c 05 00000000 ${text('{"features":["window"]}')}`;
const ANNOUNCE = '00000009 07 00000000 00000000';
const OPEN = (id: string): string => `0000000e 02 ${id} ${text('gpg-agent')}`;
const CLOSE = (id: string): string => `00000005 03 ${id}`;
const ONE = '00000001';

async function closing(muxer: Muxer): Promise<BridgeError | undefined> {
  const [error] = (await once(muxer, 'close')) as [BridgeError | undefined];
  return error;
}

async function expectFrames(raw: Socket, ...frames: string[]): Promise<void> {
  const expected = hex(frames.join(''));
  expect((await readExactly(raw, expected.length)).toString('hex')).toBe(expected.toString('hex'));
}

async function nextStream(host: HostMuxer): Promise<MuxStream> {
  const [stream] = (await once(host, 'stream')) as [MuxStream];
  return stream;
}

describe("the host's frames, byte for byte", () => {
  it('PUBKEY, the announcement after READY, DATA and CLOSE', async () => {
    const { host, raw } = await hostAndRaw();
    void host.sendPublicKeys(Buffer.from('K'));
    await expectFrames(raw, '00000006 04 00000000 4b');
    const ready = once(host, 'ready');
    raw.write(hex(READY_WINDOW));
    expect((await ready)[0]).toMatchObject({ features: ['window'] });
    await expectFrames(raw, ANNOUNCE);
    const opened = nextStream(host);
    raw.write(hex(`${OPEN(ONE)} 00000007 01 ${ONE} 6869`));
    const stream = await opened;
    expect(stream.socketType).toBe('gpg-agent');
    expect((await once(stream, 'data'))[0]).toEqual(Buffer.from('hi'));
    stream.write('OK\n');
    stream.end('bye');
    await expectFrames(raw, `00000008 01 ${ONE} 4f4b0a`, `00000008 01 ${ONE} 627965`, CLOSE(ONE));
    expect(host.stats).toMatchObject({
      streams: { open: 0, total: 1 },
      bytes: { received: 2, sent: 6 },
      held: { inbound: 0, outbound: 0 },
    });
  });

  it('an empty PUBKEY when there are no keys', async () => {
    const { host, raw } = await hostAndRaw();
    expect(await host.sendPublicKeys(Buffer.alloc(0))).toEqual({ sent: 0, unsent: 0 });
    await expectFrames(raw, '00000005 04 00000000');
  });

  it('no WINDOW to a target that did not announce it', async () => {
    const { host, raw } = await hostAndRaw();
    const opened = nextStream(host);
    raw.write(hex(`${READY_V1}${OPEN(ONE)}`));
    (await opened).end();
    host.close();
    expect(await readToEnd(raw)).toEqual(hex(CLOSE(ONE)));
  });
});

describe("the target's frames, byte for byte", () => {
  it('READY, OPEN with ids from 1 up, ERROR', async () => {
    const { target, raw } = await targetAndRaw({ features: [] });
    target.ready({ sockets: [{ type: 'ssh-agent', path: '/s' }], runtime: 'node' });
    const json =
      '{"version":2,"features":[],"sockets":[{"type":"ssh-agent","path":"/s"}],"runtime":"node","warnings":[]}';
    await expectFrames(raw, `000000${(json.length + 5).toString(16)} 05 00000000 ${text(json)}`);
    target.open('gpg-agent');
    target.open('ssh-agent').write('x');
    target.error('no');
    await expectFrames(
      raw,
      OPEN(ONE),
      `0000000e 02 00000002 ${text('ssh-agent')}`,
      '00000006 01 00000002 78',
      `00000007 06 00000000 ${text('no')}`,
    );
  });

  it('announces window and pubkey-more', async () => {
    const { target, raw } = await targetAndRaw();
    target.ready({ sockets: [] });
    target.close();
    const frame = await readToEnd(raw);
    expect(JSON.parse(frame.subarray(9).toString())).toEqual({
      version: 2,
      features: ['window', 'pubkey-more'],
      sockets: [],
      warnings: [],
    });
  });

  it('PUBKEY is handed on, empty or not', async () => {
    const { target, raw } = await targetAndRaw();
    const keys: string[] = [];
    const both = new Promise<void>((resolve) =>
      target.on('pubkey', (bytes) => {
        if (keys.push(bytes.toString()) === 2) resolve();
      }),
    );
    raw.write(hex(`00000005 04 00000000 00000007 04 00000000 ${text('ab')}`));
    await both;
    expect(keys).toEqual(['', 'ab']);
  });
});

describe('before READY', () => {
  it.each([
    [
      'text',
      Buffer.from('bash: line 1: perl: command not found\n'),
      'bash: line 1: perl: command not found\\n',
    ],
    ['a terminal sequence', Buffer.from('\u001b[31mno\u001b[0m'), '\\x1b[31mno\\x1b[0m'],
    ['DATA', hex('00000006 01 00000001 78'), '\\x01'],
    ['OPEN', hex(OPEN(ONE)), 'gpg-agent'],
    ['CLOSE', hex(CLOSE(ONE)), '\\x03'],
    ['WINDOW', hex(ANNOUNCE), '\\x07'],
    ['an unknown type, its payload still to come', hex('00000009 40 00000000'), '@'],
    ['READY that is no JSON object', hex(`00000007 05 00000000 ${text('[]')}`), '[]'],
  ])('%s ends the bridge and is shown', async (_name, bytes, shown) => {
    const { host, raw } = await hostAndRaw();
    raw.write(bytes);
    const error = await closing(host);
    expect(error).toMatchObject({ code: 'NOT_A_BRIDGE' });
    expect(error!.message).toContain(shown);
    expect(error!.message).not.toMatch(/[\x00-\x1f]/);
  });

  it('a long text is cut', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write('x'.repeat(100_000));
    expect((await closing(host))!.message.length).toBeLessThan(600);
  });

  it('a text too short to be a header is shown when the target ends', async () => {
    const { host, raw } = await hostAndRaw();
    raw.end('no');
    expect(await closing(host)).toMatchObject({ code: 'NOT_A_BRIDGE', why: 'it printed "no"' });
  });

  it('ERROR is handed on, and is the reason when the target ends', async () => {
    const { host, raw } = await hostAndRaw();
    const message = once(host, 'error-message');
    raw.end(hex(`0000000c 06 00000000 ${text('no home')}`));
    expect(await message).toEqual(['no home']);
    expect(await closing(host)).toMatchObject({ code: 'TARGET_ERROR', why: 'no home' });
  });

  it('a target that ends silently is said to have', async () => {
    const { host, raw } = await hostAndRaw();
    raw.end();
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED' });
  });
});

describe('after READY', () => {
  async function readyHost(options?: Parameters<typeof hostAndRaw>[0], ready = READY_WINDOW) {
    const both = await hostAndRaw(options);
    const heard = once(both.host, 'ready');
    both.raw.write(hex(ready));
    await heard;
    if (ready === READY_WINDOW) await expectFrames(both.raw, ANNOUNCE);
    return both;
  }

  /** The bridge still works: a stream can be opened and closed. */
  async function expectWorking(host: HostMuxer, raw: Socket, id = '0000ffff'): Promise<void> {
    const opened = nextStream(host);
    raw.write(hex(OPEN(id)));
    (await opened).end();
    await expectFrames(raw, CLOSE(id));
  }

  it.each(['00000004', '00000000', '00100001', 'ffffffff'])(
    'a length of %s ends the bridge',
    async (length) => {
      const { host, raw } = await readyHost();
      raw.write(hex(`${length} 01 ${ONE}`));
      expect(await closing(host)).toMatchObject({ code: 'FRAME_LENGTH' });
    },
  );

  it.each([
    ['in use', `${OPEN(ONE)}${OPEN(ONE)}`],
    ['0, which is the bridge', OPEN('00000000')],
  ])('OPEN of an id that is %s ends the bridge', async (_name, frames) => {
    const { host, raw } = await readyHost();
    raw.write(hex(frames));
    expect(await closing(host)).toMatchObject({ code: 'STREAM_IN_USE' });
  });

  it.each([
    ['an unknown type', '00000006 09 00000001 78'],
    ['the unknown type 0', '00000005 00 00000000'],
    ['DATA for a stream that is not open', '00000006 01 00000063 78'],
    ['CLOSE for a stream that is not open', CLOSE('00000063')],
    ['WINDOW for a stream that is not open', '00000009 07 00000063 00000001'],
    ['DATA for the bridge itself', '00000006 01 00000000 78'],
    ['WINDOW of the wrong size', '00000006 07 00000001 01'],
    ['PUBKEY, which is for targets', '00000006 04 00000000 78'],
    ['a second READY', READY_V1],
  ])('%s is ignored', async (_name, frame) => {
    const { host, raw } = await readyHost();
    raw.write(hex(frame));
    await expectWorking(host, raw);
  });

  it('OPEN of an unknown socket type is answered with CLOSE', async () => {
    const { host, raw } = await readyHost();
    raw.write(hex(`00000006 02 ${ONE} 78`));
    await expectFrames(raw, CLOSE(ONE));
    await expectWorking(host, raw);
  });

  it('OPEN of a socket type that is not served is answered with CLOSE', async () => {
    const { host, raw } = await readyHost({ socketTypes: ['gpg-agent'] });
    raw.write(hex(`0000000e 02 ${ONE} ${text('ssh-agent')}`));
    await expectFrames(raw, CLOSE(ONE));
    await expectWorking(host, raw);
  });

  it('OPEN over the limit is answered with CLOSE, and there is room again after a close', async () => {
    const { host, raw } = await readyHost({ maxStreams: 2 });
    raw.write(hex(`${OPEN(ONE)}${OPEN('00000002')}${OPEN('00000003')}`));
    await expectFrames(raw, CLOSE('00000003'));
    expect(host.stats.streams).toEqual({ open: 2, total: 2 });
    raw.write(hex(CLOSE(ONE)));
    await expectWorking(host, raw);
  });

  it('4,096 streams fit, one more does not', async () => {
    const { host, raw } = await readyHost();
    const ids = Array.from({ length: 4_097 }, (_, at) => (at + 1).toString(16).padStart(8, '0'));
    raw.write(hex(ids.map(OPEN).join('')));
    await expectFrames(raw, CLOSE('00001001'));
    expect(host.stats.streams.open).toBe(4_096);
  });

  it('DATA beyond the credit closes that stream and no other', async () => {
    const { host, raw } = await readyHost();
    const stuck = nextStream(host);
    raw.write(hex(OPEN(ONE)));
    const stream = await stuck;
    raw.write(Buffer.concat([hex(`00040005 01 ${ONE}`), Buffer.alloc(262_144)]));
    raw.write(hex(`00000006 01 ${ONE} 78`));
    await expectFrames(raw, CLOSE(ONE));
    expect(stream.failure).toMatchObject({ code: 'SESSION_ENDED' });
    expect(stream.undelivered).toBe(0);
    await expectWorking(host, raw);
  });

  it('one frame beyond the credit closes the stream before its payload has come', async () => {
    const { host, raw } = await readyHost();
    raw.write(hex(`${OPEN(ONE)} 00040006 01 ${ONE} 78`));
    await expectFrames(raw, CLOSE(ONE));
    raw.write(Buffer.alloc(262_144));
    await expectWorking(host, raw);
  });

  it('a broken carrier ends every stream with the reason', async () => {
    const { host, raw } = await readyHost();
    const opened = nextStream(host);
    raw.write(hex(OPEN(ONE)));
    const stream = await opened;
    const ended = once(stream.resume(), 'end');
    raw.destroy();
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED' });
    await ended;
    expect(stream.failure).toMatchObject({ code: 'TARGET_CLOSED' });
    stream.write('dropped');
  });

  it('what a target said before it closed is in the reason', async () => {
    const { host, raw } = await readyHost();
    raw.end(hex(`0000000c 06 00000000 ${text('no room')}`));
    expect(await closing(host)).toMatchObject({
      code: 'TARGET_CLOSED',
      why: 'the target closed its end after it said "no room"',
    });
  });

  it('a carrier that fails is the reason', async () => {
    const { host, near } = await readyHost();
    near.destroy(new Error('cable cut'));
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED', cause: { message: 'cable cut' } });
  });

  it('a peer that asks without listening is not read any further, until it listens', async () => {
    const { raw, host, near } = await readyHost({ socketTypes: [] });
    const ids = Array.from({ length: 4_000 }, (_, at) => (at + 1).toString(16).padStart(8, '0'));
    const opens = hex(ids.map(OPEN).join(''));
    const closes = hex(ids.map(CLOSE).join(''));
    let asked = 0;
    await until(() => {
      if (raw.writableLength === 0) asked += Number(raw.write(opens) || 1);
      return near.isPaused();
    });
    expect(host.stats.held.outbound).toBeLessThan(4 * 1_048_576);
    for (let answered = 0; answered < asked; answered += 1) {
      expect((await readExactly(raw, closes.length)).equals(closes)).toBe(true);
    }
    expect(near.isPaused()).toBe(false);
  });
});

describe('the target', () => {
  it('ignores frames that are for hosts, and goes on', async () => {
    const { target, raw } = await targetAndRaw();
    raw.write(hex(`${OPEN(ONE)}${READY_V1} 00000006 06 00000000 78 00000005 63 00000000`));
    const keys = once(target, 'pubkey');
    raw.write(hex('00000006 04 00000000 4b'));
    expect(await keys).toEqual([Buffer.from('K')]);
  });

  it('refuses clients over its limit', async () => {
    const { target } = await targetAndRaw({ maxStreams: 1 });
    const stream = target.open('gpg-agent');
    expect(() => target.open('gpg-agent')).toThrow(expect.objectContaining({ code: 'SESSION_LIMIT' }));
    stream.destroy();
    expect(target.open('ssh-agent').id).toBe(2);
  });

  it('refuses clients after its end, which comes with the end of the host', async () => {
    const { target, raw } = await targetAndRaw();
    raw.end();
    expect(await closing(target)).toMatchObject({ code: 'TARGET_CLOSED' });
    expect(() => target.open('gpg-agent')).toThrow(expect.objectContaining({ code: 'SESSION_ENDED' }));
  });

  it('ends on a broken frame', async () => {
    const { target, raw } = await targetAndRaw();
    raw.write(Buffer.alloc(9));
    expect(await closing(target)).toMatchObject({ code: 'FRAME_LENGTH' });
  });
});

describe('a large keyring', () => {
  const keys = Buffer.concat(
    Array.from({ length: 3_000 }, () => Buffer.concat([Buffer.of(0xc6, 0xc4, 0x00), Buffer.alloc(1_216)])),
  );

  it('arrives whole, what does not fit in one frame after READY', async () => {
    const { host, raw } = await hostAndRaw();
    const sending = host.sendPublicKeys(keys);
    const received: Buffer[] = [];
    const sizes: number[] = [];
    for (let total = 0; total < keys.length; ) {
      const header = await readExactly(raw, 9);
      const payload = await readExactly(raw, header.readUInt32BE(0) - 5);
      expect(header[4]).toBe(4);
      received.push(payload);
      sizes.push(payload.length);
      total += payload.length;
      if (sizes.length === 1) raw.write(hex(`00000021 05 00000000 ${text('{"features":["pubkey-more"]}')}`));
    }
    expect(Buffer.concat(received).equals(keys)).toBe(true);
    expect(sizes.every((size) => size <= 1_048_571 && size % 1_219 === 0)).toBe(true);
    expect(await sending).toEqual({ sent: keys.length, unsent: 0 });
  });

  it('is sent as far as one frame goes to a version 1 target', async () => {
    const { host, raw } = await hostAndRaw();
    const sending = host.sendPublicKeys(keys);
    raw.resume().write(hex(READY_V1));
    const { sent, unsent } = await sending;
    expect(sent + unsent).toBe(keys.length);
    expect(sent).toBeLessThanOrEqual(1_048_571);
    expect(sent).toBeGreaterThan(1_040_000);
  });

  it('is not waited for when the target ends', async () => {
    const { host, raw } = await hostAndRaw();
    const sending = host.sendPublicKeys(keys);
    raw.resume().end();
    expect((await sending).unsent).toBeGreaterThan(0);
  });
});

describe('CLOSE', () => {
  it('comes after everything that was sent before it, whatever the reader is doing', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const bytes = Buffer.from(Uint8Array.from({ length: 200_000 }, (_, at) => at % 253));
    near.end(bytes);
    await once(near, 'finish');
    await until(() => !far.open);
    expect(far.undelivered).toBe(bytes.length);
    expect((await readToEnd(far)).equals(bytes)).toBe(true);
    expect(ends.host.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: 0 } });
  });

  it('drops what the other side still had to send', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    far.write(Buffer.alloc(300_000)); // more than the credit, so some of it waits
    await until(() => near.undelivered === 262_144);
    expect(far.unsent).toBeGreaterThan(0);
    const closed = once(far.resume(), 'close');
    near.end();
    await closed;
    expect(far.unsent).toBe(0);
    expect(ends.host.stats.held).toEqual({ inbound: 0, outbound: 0 });
    // What had come before stays readable.
    expect((await readToEnd(near)).length).toBe(262_144);
  });

  it('of a stream with bytes to deliver still counts against the limit', async () => {
    const ends = await bridge({ target: { maxStreams: 1 } });
    const { near, far } = await ends.open();
    far.end('unread');
    await until(() => !near.open);
    expect(() => ends.target.open('gpg-agent')).toThrow(expect.objectContaining({ code: 'SESSION_LIMIT' }));
    expect(await readToEnd(near)).toEqual(Buffer.from('unread'));
    await ends.open();
  });

  it('is sent once by destroy, and both ends are let go', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const closed = once(far.resume(), 'close');
    near.write('x');
    near.destroy();
    await closed;
    expect(ends.target.stats.streams.open + ends.host.stats.streams.open).toBe(0);
  });
});

describe('a carrier that ended before', () => {
  it('ends the bridge, although it tells nobody any more', async () => {
    const [near] = await socketPair();
    near.destroy();
    await once(near, 'close');
    const host = new HostMuxer({ input: near, output: near });
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED' });
  });
});
