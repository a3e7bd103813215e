import { once } from 'node:events';
import { bridge, hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly } from '@gpg-bridge/test-support/socket-pair';
import { CALL, PUBKEY, READY, RESULT, wireFrame } from '@gpg-bridge/test-support/wire';
import { describe, expect, it } from 'vitest';
import { encodeFields } from './fields.ts';
import { MAX_DATA, MAX_PAYLOAD } from './frame.ts';

type Answer = (fields: readonly (string | Buffer)[]) => void;

const IS_READY = wireFrame(READY, 0, '{"version":4}');

const texts = (fields: Buffer[]): string[] => fields.map(String);

describe('calls', () => {
  it('bring their fields there, and those of the result back, whatever bytes they are', async () => {
    const { host, target } = await bridge();
    const every = Buffer.from(Uint8Array.from({ length: 256 }, (_, at) => at));
    target.on('call', (fields, answer) => answer([...fields].reverse()));
    expect(await host.call(['run', '', every])).toEqual([every, Buffer.alloc(0), Buffer.from('run')]);
    expect(await host.call([])).toEqual([]);
  });

  it('are answered in any order, each with its own result', async () => {
    const { host, target } = await bridge();
    const open: { name: string; answer: Answer }[] = [];
    target.on('call', ([name], answer) => open.push({ name: String(name), answer }));
    const names = Array.from({ length: 20 }, (_, at) => `call ${at}`);
    const settled: string[] = [];
    const calls = names.map(async (name) => {
      const fields = texts(await host.call([name]));
      settled.push(name);
      return fields;
    });
    await until(() => open.length === names.length);
    expect(open.map(({ name }) => name)).toEqual(names);
    for (const { name, answer } of open.reverse()) answer(['ok', name]);
    expect(await Promise.all(calls)).toEqual(names.map((name) => ['ok', name]));
    expect(settled).toEqual(names.toReversed());
  });

  it('take the first result, and ignore others of the same number', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write(IS_READY);
    const [first, second] = [host.call(['a']), host.call(['b'])];
    raw.write(wireFrame(RESULT, 1, encodeFields(['one'])));
    raw.write(wireFrame(RESULT, 1, encodeFields(['again'])));
    raw.write(wireFrame(RESULT, 2, encodeFields(['two'])));
    expect(texts(await first)).toEqual(['one']);
    expect(texts(await second)).toEqual(['two']);
  });

  it('keep their result, whatever is read into the same memory afterwards', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write(IS_READY);
    const called = host.call(['read']);
    raw.write(wireFrame(RESULT, 1, encodeFields(['kept'])));
    const [field] = await called;
    const next = host.call(['read']);
    raw.write(wireFrame(RESULT, 2, encodeFields([Buffer.alloc(50_000, 'x')])));
    await next;
    expect(String(field)).toBe('kept');
  });

  it('fail with a result of far too many fields', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write(IS_READY);
    const [many, tooMany] = [host.call(['a']), host.call(['b'])];
    raw.write(wireFrame(RESULT, 1, Buffer.alloc(16_384 * 4)));
    raw.write(wireFrame(RESULT, 2, Buffer.alloc(16_385 * 4)));
    expect(await many).toHaveLength(16_384);
    await expect(tooMany).rejects.toThrow('unreadable');
  });

  it('fail with a result that can not be read, and the others go on', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write(IS_READY);
    const [garbled, other] = [host.call(['a']), host.call(['b'])];
    raw.write(wireFrame(RESULT, 1, Buffer.from('ffffffff78', 'hex')));
    await expect(garbled).rejects.toThrow('unreadable');
    raw.write(wireFrame(RESULT, 2, encodeFields(['fine'])));
    expect(texts(await other)).toEqual(['fine']);
    expect(host.closed).toBe(false);
  });

  it('fail when the bridge ends before their results, with its reason, and so do later ones', async () => {
    const { host, raw } = await hostAndRaw();
    raw.write(IS_READY);
    const calls = [host.call(['a']), host.call(['b']), host.call(['c'])];
    raw.write(wireFrame(RESULT, 2, encodeFields(['in time'])));
    expect(texts(await calls[1]!)).toEqual(['in time']);
    raw.end(Buffer.from('00000001', 'hex'));
    for (const call of [calls[0], calls[2]]) {
      await expect(call).rejects.toMatchObject({ code: 'FRAME_LENGTH' });
    }
    await expect(host.call(['d'])).rejects.toMatchObject({ code: 'TARGET_CLOSED' });
  });

  it.each(['host', 'target'] as const)('fail when the %s closes the bridge', async (end) => {
    const ends = await bridge();
    const called = ends.host.call(['a']);
    const heard = once(ends.target, 'call') as Promise<[Buffer[], Answer]>;
    const [, answer] = await heard;
    ends[end].close();
    await expect(called).rejects.toMatchObject({ code: 'TARGET_CLOSED' });
    answer(['late']);
  });

  it('that no frame can hold fail, and the others go on', async () => {
    const { host, target } = await bridge();
    target.on('call', (fields, answer) => answer(['ok', ...fields]));
    await expect(host.call([Buffer.alloc(MAX_PAYLOAD)])).rejects.toThrow(RangeError);
    expect(texts(await host.call(['next']))).toEqual(['ok', 'next']);
  });

  it('have an error for a result that no frame can hold', async () => {
    const { host, target } = await bridge();
    const fits = MAX_PAYLOAD - 4 - 'ok'.length - 4;
    target.on('call', ([size], answer) => answer(['ok', Buffer.alloc(Number(size), 'x')]));
    expect((await host.call([String(fits)]))[1]).toHaveLength(fits);
    expect(texts(await host.call([String(fits + 1)]))).toEqual(['EMSGSIZE', 'the result is too large']);
  });

  it('that can not be read have no fields, and can be answered', async () => {
    const { target, raw } = await targetAndRaw();
    target.on('call', (fields, answer) => answer([String(fields.length)]));
    raw.write(wireFrame(CALL, 7, Buffer.from('ffffffff78', 'hex')));
    const answer = wireFrame(RESULT, 7, encodeFields(['0']));
    expect(await readExactly(raw, answer.length)).toEqual(answer);
  });
});

describe('input for a program', () => {
  it('comes whole and in order before the call that follows it', async () => {
    const { host, target } = await bridge();
    const bytes = Buffer.alloc(
      3_000_000,
      Uint8Array.from({ length: 251 }, (_, at) => at),
    );
    const input: Buffer[] = [];
    target.on('input', (piece) => input.push(piece));
    target.on('call', (_fields, answer) => answer([String(Buffer.concat(input).equals(bytes))]));
    await host.sendInput(bytes);
    expect(texts(await host.call(['run']))).toEqual(['true']);
    expect(input.every(({ length }) => length <= MAX_DATA)).toBe(true);
  });

  it('leaves as fast as the carrier takes it, and calls go on meanwhile', async () => {
    const { host, raw } = await hostAndRaw();
    const bytes = Buffer.alloc(
      4_000_000,
      Uint8Array.from({ length: 251 }, (_, at) => at),
    );
    let sent = false;
    const sending = host.sendInput(bytes).then(() => {
      sent = true;
    });
    await until(() => host.stats.held.outbound > 0);
    void host.call(['stat']).catch(() => {});
    let rest = bytes;
    let calls = 0;
    while (rest.length > 0) {
      expect(host.stats.held.outbound).toBeLessThan(4 * MAX_DATA);
      if (rest.length > 2_000_000) expect(sent).toBe(false);
      const header = await readExactly(raw, 9);
      const payload = await readExactly(raw, header.readUInt32BE(0) - 5);
      if (header[4] === CALL) {
        calls += 1;
        expect(rest.length).toBeGreaterThan(2_000_000);
      } else {
        expect(header[4]).toBe(PUBKEY);
        expect(payload.equals(rest.subarray(0, payload.length))).toBe(true);
        rest = rest.subarray(payload.length);
      }
    }
    await sending;
    expect(calls).toBe(1);
  });

  it('is not waited for when the bridge ends', async () => {
    const { host, raw } = await hostAndRaw();
    const sending = host.sendInput(Buffer.alloc(4_000_000));
    await until(() => host.stats.held.outbound > 0);
    raw.resume().end();
    await sending;
    await host.sendInput(Buffer.alloc(4_000_000));
    expect(host.closed).toBe(true);
  });
});
