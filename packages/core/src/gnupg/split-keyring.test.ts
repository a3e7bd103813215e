import { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { describe, expect, it, onTestFinished } from 'vitest';
import { splitKeyring } from './split-keyring.ts';

/** A packet with a new-format header: tag 6 starts a key, tag 13 is a user id. */
function packet(tag: number, size: number): Buffer {
  const length =
    size < 192
      ? Buffer.of(size)
      : size < 8_384
        ? Buffer.of(((size - 192) >> 8) + 192, (size - 192) & 255)
        : Buffer.of(255, size >>> 24, size >>> 16, size >>> 8, size);
  return Buffer.concat([Buffer.of(0xc0 | tag), length, Buffer.alloc(size, tag)]);
}

const key = (size: number): Buffer => Buffer.concat([packet(6, size), packet(13, 10)]);

describe('a keyring', () => {
  it('that fits is not cut, and an empty one neither', () => {
    const keys = key(100);
    expect(splitKeyring(keys, keys.length)).toEqual([keys, Buffer.alloc(0)]);
    expect(splitKeyring(Buffer.alloc(0), 10)).toEqual([Buffer.alloc(0), Buffer.alloc(0)]);
  });

  it('is cut where a key begins, behind as many as fit', () => {
    const keys = [key(100), key(300), key(50), key(9_000), key(10)];
    const [first, rest] = splitKeyring(Buffer.concat(keys), 600);
    expect(first).toEqual(Buffer.concat(keys.slice(0, 3)));
    expect(rest).toEqual(Buffer.concat(keys.slice(3)));
  });

  it('has its first key in the first part, however large', () => {
    const keys = [key(5_000), key(100)];
    expect(splitKeyring(Buffer.concat(keys), 1_000)).toEqual(keys);
  });

  it.each([
    ['no packet', Buffer.alloc(50, 'x')],
    ['a packet cut short', packet(6, 5_000).subarray(0, 60)],
    ['a partial length', Buffer.concat([Buffer.of(0xc6, 0xe5), Buffer.alloc(50)])],
    ['an old packet without length', Buffer.concat([Buffer.of(0x9b), Buffer.alloc(50)])],
    ['half a header', Buffer.of(0xc6)],
  ])('with %s at its end loses nothing', (_name, tail) => {
    const whole = Buffer.concat([key(100), key(100), tail]);
    const [first, rest] = splitKeyring(whole, whole.length - 1);
    expect(Buffer.concat([first, rest])).toEqual(whole);
    expect(first.subarray(0, key(100).length)).toEqual(key(100));
  });

  it('of gpg can be imported part by part', async () => {
    const home = await GnupgHome.create();
    onTestFinished(() => home.remove());
    for (const name of ['one', 'two', 'three']) await home.createKey(`${name} <${name}@example.org>`);
    const exported = (await home.gpg(['--export'])).stdout;
    const parts = splitKeyring(exported, Math.ceil(exported.length / 2));
    expect(parts[1].length).toBeGreaterThan(0);
    const other = await GnupgHome.create();
    onTestFinished(() => other.remove());
    for (const part of parts) await other.gpgOk(['--import'], { input: part });
    const listing = await other.gpgOk(['--with-colons', '--list-keys']);
    expect(listing.match(/^pub:/gm)).toHaveLength(3);
  });
});
