import { once } from 'node:events';
import { hostAndRaw, targetAndRaw, until } from '@gpg-bridge/test-support/mux-pair';
import { V1Host, type V1Stream, V1Target } from '@gpg-bridge/test-support/v1-peer';
import { describe, expect, it } from 'vitest';
import type { MuxStream } from './stream.ts';

const LARGE = Buffer.from(Uint8Array.from({ length: 900_000 }, (_, at) => at % 241));

describe('our host with a version 1 target', () => {
  it('serves gpg: PUBKEY comes first, and nothing the target does not know', async () => {
    const { host, raw } = await hostAndRaw();
    const target = new V1Target(raw, ['gpg-agent', 'ssh-agent']);
    const ready = once(host, 'ready');
    const keys = once(target, 'pubkey');
    await host.sendPublicKeys(Buffer.from('KEYS'));
    expect(await keys).toEqual([Buffer.from('KEYS')]);
    expect((await ready)[0]).toEqual({ version: 1, features: [], sockets: [], warnings: [] });
    const opened = once(host, 'stream');
    const client = target.open('gpg-agent');
    const [stream, socketType] = (await opened) as [MuxStream, string];
    expect(socketType).toBe('gpg-agent');
    stream.on('data', (bytes) => stream.write(bytes));
    client.send('GETINFO pid\n');
    await once(client, 'data');
    expect(client.received.toString()).toBe('GETINFO pid\n');
    client.send(LARGE);
    await until(() => client.received.length === LARGE.length + 12);
    expect(client.received.subarray(12).equals(LARGE)).toBe(true);
    const closed = once(client, 'close');
    stream.end('bye');
    await closed;
    expect(client.received.subarray(-3).toString()).toBe('bye');
    expect(new Set(target.seen)).toEqual(new Set([4, 1, 3]));
  });

  it('serves ssh alone: READY comes without PUBKEY, a CLOSE ends the stream, an ERROR is heard', async () => {
    const { host, raw } = await hostAndRaw();
    const opened = once(host, 'stream');
    const target = new V1Target(raw, ['ssh-agent']);
    const client = target.open('ssh-agent');
    const [stream] = (await opened) as [MuxStream];
    client.send('last words');
    client.close();
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe('last words');
    const message = once(host, 'error-message');
    target.error('disk full');
    expect(await message).toEqual(['disk full']);
    expect(target.seen).toEqual([]);
  });

  it('closes a stream whose reader is stuck at 8 MiB, and goes on with another', async () => {
    const { host, raw } = await hostAndRaw();
    const streams: MuxStream[] = [];
    host.on('stream', (stream) => streams.push(stream));
    const target = new V1Target(raw, ['ssh-agent']);
    const stuck = target.open('ssh-agent');
    const busy = target.open('ssh-agent');
    const closed = once(stuck, 'close');
    for (let turn = 0; turn < 9; turn += 1) stuck.send(Buffer.alloc(1_000_000));
    await closed;
    streams[1]!.on('data', (bytes) => streams[1]!.write(bytes));
    busy.send('still here');
    await once(busy, 'data');
    expect(busy.received.toString()).toBe('still here');
  });
});

describe('our target with a version 1 host', () => {
  it('works without credit, in both directions and with more than the credit', async () => {
    const { target, raw } = await targetAndRaw();
    const host = new V1Host(raw, Buffer.from('KEYS'));
    const served = new Promise<V1Stream>((resolve) =>
      host.on('stream', (stream, socketType) => {
        expect(socketType).toBe('gpg-agent');
        stream.send('OK Pleased to meet you\n'); // as every gpg-agent does
        resolve(stream);
      }),
    );
    expect(await once(target, 'pubkey')).toEqual([Buffer.from('KEYS')]);
    const ready = once(host, 'ready');
    target.ready({ sockets: [{ type: 'gpg-agent', path: '/s' }] });
    expect((await ready)[0].length).toBeGreaterThan(0);
    const client = target.open('gpg-agent');
    const agent = await served;
    expect((await once(client, 'data'))[0].toString()).toBe('OK Pleased to meet you\n');
    client.write(LARGE);
    await until(() => agent.received.length === LARGE.length);
    expect(agent.received.equals(LARGE)).toBe(true);
    let received = 0;
    client.on('data', (bytes: Buffer) => {
      received += bytes.length;
    });
    agent.send(LARGE);
    await until(() => received === LARGE.length);
    const closed = once(agent, 'close');
    client.end('BYE\n');
    await closed;
    expect(agent.received.subarray(-4).toString()).toBe('BYE\n');
    expect(host.seen).not.toContain(7);
  });

  it('sees the end that the host makes, after its last bytes', async () => {
    const { target, raw } = await targetAndRaw();
    const host = new V1Host(raw, undefined);
    host.on('stream', (stream) => {
      stream.send('OK closing connection\n');
      stream.close();
    });
    target.ready({ sockets: [] });
    const chunks: Buffer[] = [];
    for await (const chunk of target.open('ssh-agent')) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe('OK closing connection\n');
  });
});
