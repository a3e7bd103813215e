import { once } from 'node:events';
import { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import { writeBothNow, writeNow } from './write-now.ts';

const LARGE = 8 * 1_048_576;

/** Numbered, so that nothing can change places. */
function numbered(length: number): Buffer {
  return Buffer.from(Uint32Array.from({ length: length / 4 }, (_, at) => at).buffer);
}

const BOTH = [
  [
    'one piece',
    (output: Socket | PassThrough, bytes: Buffer, done?: () => void) => writeNow(output, bytes, done),
  ],
  [
    'two pieces',
    (output: Socket | PassThrough, bytes: Buffer, done?: () => void) =>
      writeBothNow(output, bytes.subarray(0, 9), bytes.subarray(9), done),
  ],
] as const;

describe.each(BOTH)('%s written now', (_name, write) => {
  it('is with the kernel when the call returns', async () => {
    const [near, far] = await socketPair();
    if (near.connecting) await once(near, 'connect');
    expect(write(near, Buffer.from('some words of mine'))).toBe(true);
    expect(near.writableLength).toBe(0);
    near.destroy(); // what only the stream had would be lost
    expect(String(await readToEnd(far))).toBe('some words of mine');
  });

  it('waits in order where the kernel does not take it all, as it was when it was written', async () => {
    const [near, far] = await socketPair();
    const sent = numbered(LARGE);
    const memory = Buffer.from(sent);
    let written = 0;
    expect(write(near, memory, () => written++)).toBe(false);
    memory.fill(0);
    const more = Buffer.from('and more than nine bytes');
    expect(write(near, more, () => written++)).toBe(false);
    more.fill(0);
    const got = await readExactly(far, LARGE + more.length);
    expect(got.subarray(0, LARGE).equals(sent)).toBe(true);
    expect(String(got.subarray(LARGE))).toBe('and more than nine bytes');
    expect(written).toBe(2);
    expect(write(near, Buffer.from('again, directly'))).toBe(true);
  });

  it('to somebody who is gone is an error of the socket, not of the call', async () => {
    const [near, far] = await socketPair();
    far.destroy();
    await once(far, 'close');
    const failed = once(near, 'error');
    write(near, Buffer.from('to nobody at all'));
    expect((await failed)[0]).toMatchObject({ code: 'EPIPE' });
  });

  it('is with the kernel also where the socket’s class is of another bundle of the program', async () => {
    class AlsoPlain extends Socket {}
    const [near, far] = await socketPair();
    if (near.connecting) await once(near, 'connect');
    const { _handle } = near as unknown as { _handle: unknown };
    const other = Object.assign(new AlsoPlain(), { _handle, connecting: false });
    expect(write(other, Buffer.from('some words of mine'))).toBe(true);
    Object.assign(other, { _handle: null });
    near.destroy();
    expect(String(await readToEnd(far))).toBe('some words of mine');
  });

  it('goes through a stream that is more than its descriptor', async () => {
    const seen: string[] = [];
    class Changing extends Socket {
      override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
        seen.push(String(chunk));
        done();
      }
    }
    const [near] = await socketPair();
    const changing = new Changing();
    Object.assign(changing, {
      _handle: (near as unknown as { _handle: unknown })._handle,
      connecting: false,
    });
    write(changing, Buffer.from('not for the wire'));
    expect(seen.join('')).toBe('not for the wire');
    Object.assign(changing, { _handle: null });
  });

  it('goes through TLS, not past it', async () => {
    const [near, far] = await socketPair();
    const encrypted = new TLSSocket(near);
    expect(write(encrypted, Buffer.from('some secret words'))).toBe(false);
    near.destroy();
    expect(String(await readToEnd(far))).not.toContain('secret');
  });

  it('goes through a stream without a descriptor', async () => {
    const stream = new PassThrough();
    write(stream, Buffer.from('some other words'));
    expect(String(stream.read())).toBe('some other words');
  });
});
