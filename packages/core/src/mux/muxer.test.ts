import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { readStream, StreamRecorder } from '@gpg-bridge/test-support/stream-recorder';
import { describe, expect, it } from 'vitest';
import type { BridgeError } from '../errors.ts';
import { HostMuxer } from './host-muxer.ts';
import type { Muxer } from './muxer.ts';
import type { MuxStream } from './stream.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const text = (value: string): string => Buffer.from(value).toString('hex');

const ready = (json: string): string =>
  `${(5 + json.length).toString(16).padStart(8, '0')} 05 00000000 ${text(json)}`;
const READY = ready(
  '{"version":4,"runtime":"perl","system":"linux","uid":1000,"home":"/home/u","boot":"b-1"}',
);
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
  it('PUBKEY, CALL, DATA and CLOSE', async () => {
    const { host, raw } = await hostAndRaw();
    await host.sendInput(Buffer.from('K'));
    const called = host.call(['stat', '/x']);
    await expectFrames(raw, '00000006 04 00000000 4b', `00000013 0b ${ONE} 00000004 73746174 00000002 2f78`);
    const isReady = once(host, 'ready');
    raw.write(hex(READY));
    const info = { version: 4, runtime: 'perl', system: 'linux', uid: 1_000, home: '/home/u', boot: 'b-1' };
    expect(await isReady).toEqual([info]);
    expect(host.info).toEqual(info);
    raw.write(hex(`0000000b 0c ${ONE} 00000002 6f6b`));
    expect(await called).toEqual([Buffer.from('ok')]);
    const opened = nextStream(host);
    raw.write(hex(`${OPEN(ONE)} 00000007 01 ${ONE} 6869`));
    const stream = await opened;
    expect(stream.socketType).toBe('gpg-agent');
    const recorder = new StreamRecorder(stream);
    await until(() => recorder.length === 2);
    expect(recorder.bytes).toEqual(Buffer.from('hi'));
    expect(stream.send(Buffer.from('OK\n'))).toBe(true);
    stream.send(Buffer.from('bye'));
    stream.finish();
    expect(recorder.calls).toEqual([2, 'ended']);
    await expectFrames(raw, `00000008 01 ${ONE} 4f4b0a`, `00000008 01 ${ONE} 627965`, CLOSE(ONE));
    expect(host.stats).toMatchObject({
      streams: { open: 0, total: 1 },
      bytes: { received: 2, sent: 6 },
      held: { inbound: 0, outbound: 0 },
    });
  });

  it('nothing that nobody asked for', async () => {
    const { host, raw } = await hostAndRaw();
    await host.sendInput(Buffer.alloc(0));
    const opened = nextStream(host);
    raw.write(hex(`${READY}${OPEN(ONE)}`));
    (await opened).finish();
    host.close();
    expect(await readToEnd(raw)).toEqual(hex(CLOSE(ONE)));
  });
});

describe("the target's frames, byte for byte", () => {
  it('READY, OPEN with ids from 1 up, EOF, CHANGED, ERROR', async () => {
    const { target, raw } = await targetAndRaw();
    target.ready({ runtime: 'node', system: 'darwin', uid: 501, home: '/Users/u' });
    await expectFrames(
      raw,
      ready('{"version":4,"runtime":"node","system":"darwin","uid":501,"home":"/Users/u"}'),
    );
    target.open('gpg-agent').endSending();
    target.open('ssh-agent').send(Buffer.from('x'));
    target.changed('ssh-agent');
    target.error('no');
    await expectFrames(
      raw,
      OPEN(ONE),
      `00000005 08 ${ONE}`,
      `0000000e 02 00000002 ${text('ssh-agent')}`,
      '00000006 01 00000002 78',
      `0000000e 0d 00000000 ${text('ssh-agent')}`,
      `00000007 06 00000000 ${text('no')}`,
    );
  });

  it('RESULT with the number of its call', async () => {
    const { target, raw } = await targetAndRaw();
    target.on('call', (fields, answer) => answer(['ok', ...fields]));
    raw.write(hex('0000000e 0b 00000102 00000005 77686f3f21'));
    await expectFrames(raw, '00000014 0c 00000102 00000002 6f6b 00000005 77686f3f21');
  });

  it('PUBKEY is handed on, empty or not', async () => {
    const { target, raw } = await targetAndRaw();
    const input: string[] = [];
    target.on('input', (bytes) => input.push(bytes.toString()));
    raw.write(hex(`00000005 04 00000000 00000007 04 00000000 ${text('ab')}`));
    await until(() => input.length === 2);
    expect(input).toEqual(['', 'ab']);
  });

  it('nothing after its end', async () => {
    const { target, raw } = await targetAndRaw();
    const called = once(target, 'call') as Promise<[Buffer[], (fields: string[]) => void]>;
    raw.write(hex('00000005 0b 00000001'));
    const [, answer] = await called;
    target.close();
    answer(['late']);
    target.changed('gpg-agent');
    expect(await readToEnd(raw)).toEqual(Buffer.alloc(0));
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
    ['WINDOW', hex('00000009 07 00000000 00000000'), '\\x07'],
    ['EOF', hex(`00000005 08 ${ONE}`), '\\x08'],
    ['RESULT', hex(`00000005 0c ${ONE}`), '\\x0c'],
    ['CHANGED', hex(`0000000e 0d 00000000 ${text('gpg-agent')}`), 'gpg-agent'],
    ['an unknown type, its payload still to come', hex('00000009 40 00000000'), '@'],
    ['READY without a payload', hex('00000005 05 00000000'), '\\x05'],
    ['READY that is no JSON object', hex(`00000007 05 00000000 ${text('[]')}`), '[]'],
  ])('%s ends the bridge and is shown', async (_name, bytes, shown) => {
    const { host, raw } = await hostAndRaw();
    raw.write(bytes);
    const error = await closing(host);
    expect(error).toMatchObject({ code: 'NOT_A_BRIDGE' });
    expect(error!.message).toContain(shown);
    expect(error!.message).not.toMatch(/[\x00-\x1f]/);
  });

  it.each([
    ['{"version":2,"features":["window"]}', 2],
    ['{"version":5,"runtime":"perl"}', 5],
    ['{"version":"4"}', 0],
    ['{}', 0],
  ])('READY of another version (%s) ends the bridge', async (json, version) => {
    const { host, raw } = await hostAndRaw();
    let isReady = false;
    host.on('ready', () => {
      isReady = true;
    });
    const called = host.call(['stat', '/']);
    raw.write(hex(`${ready(json)}${OPEN(ONE)}`));
    const [error] = await Promise.all([
      closing(host),
      expect(called).rejects.toMatchObject({ code: 'VERSION_MISMATCH' }),
    ]);
    expect(error).toMatchObject({
      code: 'VERSION_MISMATCH',
      why: `the host speaks version 4 of the protocol, the target ${version}`,
    });
    expect(isReady).toBe(false);
    expect(host.info).toBeUndefined();
    expect(host.stats.streams.total).toBe(0);
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
  async function readyHost(options?: Parameters<typeof hostAndRaw>[0]) {
    const both = await hostAndRaw(options);
    const heard = once(both.host, 'ready');
    both.raw.write(hex(READY));
    await heard;
    return both;
  }

  /** The bridge still works: a stream can be opened and closed. */
  async function expectWorking(host: HostMuxer, raw: Socket, id = '0000ffff'): Promise<void> {
    const opened = nextStream(host);
    raw.write(hex(OPEN(id)));
    (await opened).finish();
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
    ['an unknown type', '00000006 0e 00000001 78'],
    ['the unknown type 0', '00000005 00 00000000'],
    ['DATA for a stream that is not open', '00000006 01 00000063 78'],
    ['CLOSE for a stream that is not open', CLOSE('00000063')],
    ['WINDOW for a stream that is not open', '00000009 07 00000063 00000001'],
    ['EOF for a stream that is not open', '00000005 08 00000063'],
    ['RESULT of a call that is not open', '0000000b 0c 00000063 00000002 6f6b'],
    ['DATA for the bridge itself', '00000006 01 00000000 78'],
    ['WINDOW of the wrong size', '00000006 07 00000001 01'],
    ['PUBKEY, which is for targets', '00000006 04 00000000 78'],
    ['CALL, which is for targets', '00000009 0b 00000001 00000000'],
    ['a second READY', READY],
    ['a second READY of another version', ready('{"version":2}')],
    ['a second READY that is none', '00000005 05 00000000'],
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
    const recorder = new StreamRecorder(stream);
    raw.destroy();
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED' });
    expect(recorder.calls).toEqual(['ended']);
    expect(stream.failure).toMatchObject({ code: 'TARGET_CLOSED' });
    expect(stream.send(Buffer.from('dropped'))).toBe(true);
    expect(stream.unsent).toBe(0);
  });

  it('what a target said before it closed is in the reason', async () => {
    const { host, raw } = await readyHost();
    raw.end(hex(`0000000c 06 00000000 ${text('no room')}`));
    expect(await closing(host)).toMatchObject({
      code: 'TARGET_CLOSED',
      why: 'the target closed its end after it said "no room"',
    });
  });

  it('CHANGED is handed on, every time', async () => {
    const { host, raw } = await readyHost();
    const changed: string[] = [];
    host.on('changed', (socketType) => changed.push(socketType));
    const frame = `0000000e 0d 00000000 ${text('ssh-agent')}`;
    raw.write(hex(`${frame}0000000e 0d 00000000 ${text('gpg-agent')}${frame}`));
    await expectWorking(host, raw);
    expect(changed).toEqual(['ssh-agent', 'gpg-agent', 'ssh-agent']);
  });

  it('a carrier that nobody reads any more is the same as one that was closed', async () => {
    const { host, near } = await readyHost();
    near.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    const why = expect.stringContaining('closed its end');
    expect(await closing(host)).toMatchObject({ code: 'TARGET_CLOSED', why });
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
    const stream = target.open('gpg-agent');
    const recorder = new StreamRecorder(stream);
    raw.write(
      hex(
        `${OPEN(ONE)}${OPEN('00000002')}${READY} 00000006 06 00000000 78 00000005 63 00000000` +
          `00000005 08 ${ONE} 0000000b 0c ${ONE} 00000002 6f6b 0000000e 0d 00000000 ${text('gpg-agent')}`,
      ),
    );
    const input = once(target, 'input');
    raw.write(hex('00000006 04 00000000 4b'));
    expect(await input).toEqual([Buffer.from('K')]);
    expect(target.stats.streams).toEqual({ open: 1, total: 1 });
    expect(stream.open).toBe(true);
    expect(recorder.calls).toEqual([]);
  });

  it('refuses clients over its limit', async () => {
    const { target } = await targetAndRaw({ maxStreams: 1 });
    const stream = target.open('gpg-agent');
    expect(target.hasRoom).toBe(false);
    expect(() => target.open('gpg-agent')).toThrow(expect.objectContaining({ code: 'SESSION_LIMIT' }));
    const room = once(target, 'room');
    stream.discard();
    await room;
    expect(target.hasRoom).toBe(true);
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

describe('CLOSE', () => {
  it('comes after everything that was sent before it, whatever the reader is doing', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const bytes = Buffer.from(Uint8Array.from({ length: 200_000 }, (_, at) => at % 253));
    near.send(bytes);
    near.finish();
    await until(() => !far.open);
    expect(far.undelivered).toBe(bytes.length);
    expect(ends.host.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: bytes.length } });
    expect((await readStream(far)).equals(bytes)).toBe(true);
    expect(ends.host.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: 0 } });
  });

  it('drops what the other side still had to send', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const recorder = new StreamRecorder(far);
    // More than the credit, so some of it waits.
    expect(far.send(Buffer.alloc(300_000))).toBe(false);
    await until(() => near.undelivered === 262_144);
    expect(far.unsent).toBe(300_000 - 262_144);
    near.finish();
    await until(() => recorder.over);
    expect(recorder.calls).toEqual(['drained', 'ended']);
    expect(far.unsent).toBe(0);
    expect(ends.host.stats.held).toEqual({ inbound: 0, outbound: 0 });
    // What had come before can still be taken.
    expect((await readStream(near)).length).toBe(262_144);
  });

  it('of a stream with bytes to deliver does not count against the limit', async () => {
    const ends = await bridge({ target: { maxStreams: 1 } });
    const { near, far } = await ends.open();
    far.send(Buffer.from('unread'));
    far.finish();
    await until(() => !near.open);
    await ends.open();
    expect(await readStream(near)).toEqual(Buffer.from('unread'));
  });

  it('follows bytes that wait for credit, and is not told before they are taken', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const bytes = Buffer.from(Uint8Array.from({ length: 400_000 }, (_, at) => at % 251));
    near.send(bytes);
    near.finish();
    expect(near.open).toBe(true);
    const recorder = new StreamRecorder(far, () => false);
    while (!recorder.over) {
      await until(() => far.undelivered > 0 || recorder.over);
      expect(recorder.ends).toEqual(recorder.over ? ['ended'] : []);
      far.resumeDelivery();
    }
    expect(recorder.bytes.equals(bytes)).toBe(true);
    expect(near.open).toBe(false);
  });
});

describe('a stream that is discarded', () => {
  it('closes at once, without a word to its consumer, and both ends are let go', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    const recorder = new StreamRecorder(stream, () => false);
    raw.write(hex(`00000007 01 ${ONE} 6162 00000007 01 ${ONE} 6364`));
    await until(() => stream.undelivered === 2);
    stream.send(Buffer.alloc(262_145));
    expect(target.stats.held.inbound).toBe(2);
    stream.discard();
    stream.discard();
    stream.finish();
    expect(stream.open).toBe(false);
    expect([stream.undelivered, stream.unsent]).toEqual([0, 0]);
    expect(target.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: 0 } });
    await expectFrames(raw, OPEN(ONE));
    await readExactly(raw, 4 * (9 + 65_536));
    await expectFrames(raw, CLOSE(ONE));
    // What the host sends before it has seen that is dropped.
    raw.write(hex(`00000006 01 ${ONE} 78 ${CLOSE(ONE)}`));
    const last = target.open('ssh-agent');
    await expectFrames(raw, `0000000e 02 00000002 ${text('ssh-agent')}`);
    raw.write(hex('00000006 01 00000002 79'));
    await until(() => last.undelivered === 1);
    expect(recorder.calls).toEqual([2]);
    target.close();
    expect(await readToEnd(raw)).toEqual(Buffer.alloc(0));
  });

  it('while its consumer takes bytes delivers no more of them', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.send(Buffer.alloc(200_000));
    await until(() => far.undelivered === 200_000);
    const recorder = new StreamRecorder(far, () => {
      far.discard();
      return true;
    });
    expect(recorder.calls).toHaveLength(1);
    expect(ends.host.stats.held.inbound).toBe(0);
    expect(await readStream(near)).toEqual(Buffer.alloc(0));
    expect(ends.target.stats.streams.open + ends.host.stats.streams.open).toBe(0);
  });

  it('after the other end closed it only drops what it holds', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.send(Buffer.from('unread'));
    near.finish();
    await until(() => !far.open);
    far.discard();
    expect(ends.host.stats).toMatchObject({ held: { inbound: 0, outbound: 0 } });
    expect(new StreamRecorder(far).calls).toEqual(['ended']);
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
