import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { readStream, StreamRecorder } from '@gpg-bridge/test-support/stream-recorder';
import { CLOSE, DATA, EOF, OPEN, READY, uint32, WINDOW, wireFrame } from '@gpg-bridge/test-support/wire';
import { describe, expect, it } from 'vitest';
import { INITIAL_CREDIT, MAX_DATA } from './frame.ts';
import type { HostMuxer } from './host-muxer.ts';
import type { MuxStream } from './stream.ts';

async function expectFrames(raw: Socket, ...frames: Buffer[]): Promise<void> {
  const expected = Buffer.concat(frames);
  expect((await readExactly(raw, expected.length)).toString('hex')).toBe(expected.toString('hex'));
}

/** A host that is ready and has one open stream, and the raw target. */
async function openStream(): Promise<{ host: HostMuxer; raw: Socket; stream: MuxStream }> {
  const { host, raw } = await hostAndRaw();
  const opened = once(host, 'stream') as Promise<[MuxStream]>;
  raw.write(Buffer.concat([wireFrame(READY, 0, '{"version":4}'), wireFrame(OPEN, 1, 'gpg-agent')]));
  const [stream] = await opened;
  return { host, raw, stream };
}

describe('EOF', () => {
  it('is told behind every byte, and the answer still goes back', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const client = new StreamRecorder(near);
    const question = Buffer.from(Uint8Array.from({ length: 400_000 }, (_, at) => at % 253));
    near.send(question);
    near.endSending();
    const agent = new StreamRecorder(far, () => false);
    while (agent.length < question.length) {
      expect(agent.ends).toEqual([]);
      await until(() => far.undelivered > 0);
      far.resumeDelivery();
    }
    await until(() => agent.ends.length > 0);
    expect(agent.calls.at(-1)).toBe('eof');
    expect(agent.bytes.equals(question)).toBe(true);
    expect(near.open && far.open).toBe(true);

    const answer = Buffer.from(Uint8Array.from({ length: 500_000 }, (_, at) => at % 241));
    far.send(answer);
    far.finish();
    await until(() => client.over);
    expect(client.bytes.equals(answer)).toBe(true);
    expect(client.ends).toEqual(['drained', 'ended']);
    expect(agent.ends).toEqual(['eof', 'drained', 'ended']);
    expect(near.failure ?? far.failure).toBeUndefined();
    expect(ends.host.stats.streams.open + ends.target.stats.streams.open).toBe(0);
  });

  it('is told once to a consumer that has taken everything, and to one that comes later', async () => {
    const ends = await bridge();
    const [early, late] = [await ends.open(), await ends.open()];
    const first = new StreamRecorder(early.far);
    for (const { near } of [early, late]) near.endSending();
    await until(() => first.calls.length > 0);
    const second = new StreamRecorder(late.far);
    for (const { far } of [early, late]) far.resumeDelivery();
    expect([first.calls, second.calls]).toEqual([['eof'], ['eof']]);
  });

  it('is not told once the stream is over', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.send(Buffer.from('last'));
    near.endSending();
    near.finish();
    await until(() => !far.open);
    expect(new StreamRecorder(far).calls).toEqual([4, 'ended']);
  });

  it.each(['nobody has taken what came before', 'everything was taken'])(
    'and DATA behind it close the stream and no other, where %s',
    async (where) => {
      const { host, raw, stream } = await openStream();
      const recorder = where.startsWith('everything') ? new StreamRecorder(stream) : undefined;
      raw.write(Buffer.concat([wireFrame(DATA, 1, 'ok'), wireFrame(EOF, 1), wireFrame(DATA, 1, 'x')]));
      await expectFrames(raw, wireFrame(CLOSE, 1));
      expect(stream.failure).toMatchObject({ code: 'SESSION_ENDED' });
      expect(stream.open).toBe(false);
      expect(host.stats).toMatchObject({ streams: { open: 0 }, held: { inbound: 0 } });
      if (recorder) expect(recorder.calls).toEqual([2, 'eof', 'ended']);
      else expect(new StreamRecorder(stream).calls).toEqual(['ended']);
      const opened = once(host, 'stream') as Promise<[MuxStream]>;
      raw.write(wireFrame(OPEN, 2, 'gpg-agent'));
      (await opened)[0].finish();
      await expectFrames(raw, wireFrame(CLOSE, 2));
    },
  );

  it('needs no credit for what came before it', async () => {
    const { raw, stream } = await openStream();
    raw.write(Buffer.concat([wireFrame(DATA, 1, Buffer.alloc(200_000)), wireFrame(EOF, 1)]));
    await until(() => stream.undelivered === 200_000 && stream.receiveCredit === 0);
    const recorder = new StreamRecorder(stream);
    expect(recorder.length).toBe(200_000);
    expect(recorder.ends).toEqual(['eof']);
    stream.send(Buffer.from('x'));
    await expectFrames(raw, wireFrame(DATA, 1, 'x'));
  });

  it('does not stop credit of the other direction', async () => {
    const { raw, stream } = await openStream();
    const recorder = new StreamRecorder(stream);
    raw.write(wireFrame(EOF, 1));
    await until(() => recorder.ends.includes('eof'));
    stream.send(Buffer.alloc(INITIAL_CREDIT + 5));
    stream.finish();
    await readExactly(raw, (INITIAL_CREDIT / MAX_DATA) * 9 + INITIAL_CREDIT);
    expect(stream.unsent).toBe(5);
    raw.write(wireFrame(WINDOW, 1, uint32(5)));
    await expectFrames(raw, wireFrame(DATA, 1, Buffer.alloc(5)), wireFrame(CLOSE, 1));
    expect(recorder.calls).toEqual(['eof', 'drained', 'ended']);
  });
});

describe('a target that has sent its last byte', () => {
  it('says EOF behind bytes that wait for credit, once', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    const recorder = new StreamRecorder(stream);
    stream.send(Buffer.alloc(INITIAL_CREDIT + 3));
    stream.endSending();
    await readExactly(raw, 18 + (INITIAL_CREDIT / MAX_DATA) * 9 + INITIAL_CREDIT);
    expect(stream.unsent).toBe(3);
    raw.write(wireFrame(WINDOW, 1, uint32(3)));
    await expectFrames(raw, wireFrame(DATA, 1, Buffer.alloc(3)), wireFrame(EOF, 1));
    // It still takes what comes, and gives credit for it.
    raw.write(wireFrame(DATA, 1, Buffer.alloc(INITIAL_CREDIT / 2)));
    await expectFrames(raw, wireFrame(WINDOW, 1, uint32(INITIAL_CREDIT / 2)));
    expect(recorder.length).toBe(INITIAL_CREDIT / 2);
    expect(recorder.ends).toEqual(['drained']);
    raw.write(wireFrame(CLOSE, 1));
    await until(() => recorder.over);
    expect(target.stats.streams.open).toBe(0);
  });

  it('and then finishes says CLOSE behind EOF', async () => {
    const { target, raw } = await targetAndRaw();
    const stream = target.open('gpg-agent');
    stream.endSending();
    expect(stream.open).toBe(true);
    stream.finish();
    expect(stream.open).toBe(false);
    await expectFrames(raw, wireFrame(OPEN, 1, 'gpg-agent'), wireFrame(EOF, 1), wireFrame(CLOSE, 1));
  });

  it.each(['endSending', 'finish'] as const)(
    'and finishes while bytes wait says CLOSE alone (%s first)',
    async (first) => {
      const { target, raw } = await targetAndRaw();
      const stream = target.open('gpg-agent');
      stream.send(Buffer.alloc(INITIAL_CREDIT + 1));
      stream[first]();
      stream[first === 'finish' ? 'endSending' : 'finish']();
      await readExactly(raw, 18 + (INITIAL_CREDIT / MAX_DATA) * 9 + INITIAL_CREDIT);
      raw.write(wireFrame(WINDOW, 1, uint32(1)));
      await expectFrames(raw, wireFrame(DATA, 1, Buffer.alloc(1)), wireFrame(CLOSE, 1));
    },
  );

  it('and whose stream was closed says nothing', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    far.finish();
    expect(await readStream(near)).toEqual(Buffer.alloc(0));
    near.endSending();
    const next = await ends.open();
    expect(next.far.open).toBe(true);
    expect(ends.target.stats.held.outbound).toBe(0);
  });
});
