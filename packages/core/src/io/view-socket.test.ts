import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { asViewSocket, ViewSocket } from './view-socket.ts';
import { leaveViews, takeViews, ViewReadable } from './view-source.ts';

const EVERY_BYTE = Buffer.from(Uint8Array.from({ length: 256 }, (_, value) => value));

/** Collects views the way a sink has to: by copying them. */
function collect(): {
  sink: (view: Buffer) => void;
  bytes(): Buffer;
  reached(length: number): Promise<void>;
} {
  const copies: Buffer[] = [];
  let length = 0;
  let wanted = { length: Number.POSITIVE_INFINITY, resolve: () => {} };
  return {
    sink(view) {
      copies.push(Buffer.from(view));
      length += view.length;
      if (length >= wanted.length) wanted.resolve();
    },
    bytes: () => Buffer.concat(copies),
    reached(atLeast) {
      return new Promise((resolve) => {
        wanted = { length: atLeast, resolve };
        if (length >= atLeast) resolve();
      });
    },
  };
}

describe('a socket that hands out views', () => {
  it('hands out every byte in order, and then ends', async () => {
    const [near, far] = await socketPair();
    const got = collect();
    takeViews(near, got.sink);
    const sent = Buffer.concat(Array.from({ length: 2_000 }, (_, turn) => EVERY_BYTE.subarray(turn % 256)));
    const ended = once(near, 'end');
    far.end(sent);
    await ended;
    expect(got.bytes().equals(sent)).toBe(true);
  });

  it('stays paused when the sink pauses at what was read before', async () => {
    const [near, far] = await socketPair();
    const [clock, clockFar] = await socketPair();
    far.write('early');
    await once(near, 'readable');
    const got = collect();
    takeViews(near, (view) => {
      got.sink(view);
      near.pause();
    });
    await got.reached(5);
    for (let turn = 0; turn < 3; turn++) {
      far.write('late');
      clockFar.write('x');
      await readExactly(clock, 1); // by now the others would have been read, too
    }
    expect(String(got.bytes())).toBe('early');
    near.resume();
    await got.reached(17);
    expect(String(got.bytes())).toBe('earlylatelatelate');
  });

  it('hands out what was read before, and put back, first', async () => {
    const [near, far] = await socketPair();
    far.write('first line\nsecond ');
    const line = await readExactly(near, 11);
    expect(String(line)).toBe('first line\n');
    expect(near.readableLength).toBe(7);
    const got = collect();
    takeViews(near, got.sink);
    expect(got.bytes().length).toBe(0); // not from inside the call
    far.write('third');
    await got.reached(12);
    expect(String(got.bytes())).toBe('second third');
  });

  it('is an ordinary stream while nobody takes views, with memory of its own for each chunk', async () => {
    const [near, far] = await socketPair();
    const chunks: Buffer[] = [];
    near.on('data', (chunk: Buffer) => chunks.push(chunk));
    for (const word of ['one', 'two', 'six']) {
      far.write(word);
      await once(near, 'data');
    }
    expect(chunks.map(String)).toEqual(['one', 'two', 'six']);
  });

  it('holds a fast writer back while it is paused or unread, and loses nothing', async () => {
    const [near, far] = await socketPair();
    const got = collect();
    takeViews(near, got.sink);
    near.pause();
    const sent = Buffer.alloc(4 * 1_048_576, EVERY_BYTE);
    expect(far.write(sent)).toBe(false);
    await new Promise((resolve) => setImmediate(resolve));
    expect(got.bytes().length).toBe(0);
    near.resume();
    await got.reached(sent.length);
    expect(got.bytes().equals(sent)).toBe(true);
  });

  it('keeps the bytes of many apart, though they share one buffer', async () => {
    const pairs = await Promise.all(Array.from({ length: 20 }, () => socketPair()));
    const all = pairs.map(([near]) => {
      const got = collect();
      takeViews(near, got.sink);
      return got;
    });
    for (let turn = 0; turn < 50; turn++) {
      for (const [index, [, far]] of pairs.entries()) far.write(Buffer.alloc(1_000, index));
    }
    for (const [index, got] of all.entries()) {
      await got.reached(50_000);
      expect(got.bytes().equals(Buffer.alloc(50_000, index))).toBe(true);
    }
  });

  it('goes back to being a stream', async () => {
    const [near, far] = await socketPair();
    const got = collect();
    takeViews(near, got.sink);
    far.write('view');
    await got.reached(4);
    leaveViews(near, got.sink);
    far.end('stream');
    expect(String(await readToEnd(near))).toBe('stream');
    expect(String(got.bytes())).toBe('view');
  });

  it('is what an accepted socket becomes, and its server knows when it is gone', async () => {
    const path = join(await tempDir(), 's');
    const server = createServer({ allowHalfOpen: true });
    server.listen(path);
    await once(server, 'listening');
    const client = new Socket({ allowHalfOpen: true }).connect(path);
    onTestFinished(() => void client.destroy());
    const [accepted] = (await once(server, 'connection')) as [Socket];
    const socket = asViewSocket(accepted);
    expect(socket).toBeInstanceOf(ViewSocket);
    expect(socket.allowHalfOpen).toBe(true);
    const got = collect();
    takeViews(socket, got.sink);
    client.write('ping');
    await got.reached(4);
    socket.end('pong');
    expect(String(await readExactly(client, 4))).toBe('pong');
    let closed = false;
    server.close(() => {
      closed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(false);
    client.end();
    await once(server, 'close');
  });

  it('is not made of a socket that shows no handle', () => {
    const socket = new Socket();
    expect(asViewSocket(socket)).toBe(socket);
  });
});

describe('any other readable', () => {
  it('is read as it is', async () => {
    const stream = new PassThrough();
    const got = collect();
    takeViews(stream, got.sink);
    stream.write('some');
    await got.reached(4);
    leaveViews(stream, got.sink);
    stream.end(' more');
    await once(stream, 'end');
    expect(String(got.bytes())).toBe('some');
  });
});

describe('a view source that is fed', () => {
  it('holds its producer back when its buffer is full or it is paused, and releases it', async () => {
    let held = false;
    const source = new ViewReadable({
      hold: () => {
        held = true;
      },
      release: () => {
        held = false;
      },
    });
    const memory = Buffer.alloc(65_536, 'a');
    source.feed(memory);
    expect(held).toBe(true);
    memory.fill('b');
    const got = collect();
    takeViews(source, got.sink);
    await got.reached(65_536);
    expect(got.bytes().every((byte) => byte === 97)).toBe(true);
    expect(held).toBe(false);
    source.pause();
    expect(held).toBe(true);
    source.resume();
    source.feed(memory.subarray(0, 3));
    expect(String(got.bytes().subarray(-3))).toBe('bbb');
    expect(held).toBe(false);
  });
});
