import { once } from 'node:events';
import { connect, createServer, type ListenOptions, type NetConnectOpts, type Socket } from 'node:net';
import { join } from 'node:path';
import { readToEnd } from '@gpg-bridge/test-support/socket-pair';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { writeFirst } from './write-first.ts';

describe('the first bytes of a connection', () => {
  /** What a listener is told by a client that writes first, and how much of it was taken at once. */
  async function told(listen: ListenOptions, words: string): Promise<{ taken: number; received: string }> {
    const server = createServer().listen(listen);
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const address = server.address();
    const options: NetConnectOpts =
      typeof address === 'string' ? { path: address } : { port: address!.port, host: '127.0.0.1' };
    const accepted = once(server, 'connection');
    const client = connect(options);
    const bytes = Buffer.from(words);
    const taken = writeFirst(client, bytes);
    client.on('connect', () => client.end(bytes.subarray(taken)));
    const [far] = (await accepted) as [Socket];
    return { taken, received: String(await readToEnd(far)) };
  }

  it('leave in the call on a local socket, and once', async () => {
    const path = join(await tempDir(), 's');
    expect(await told({ path }, 'status\n')).toEqual({ taken: 7, received: 'status\n' });
  });

  it('are told to be left over where it takes a while to connect', async () => {
    const { taken, received } = await told({ port: 0, host: '127.0.0.1' }, 'status\n');
    expect(taken).toBe(0);
    expect(received).toBe('status\n');
  });

  it('are not taken where nobody listens, which is an error of the socket', async () => {
    const client = connect(join(await tempDir(), 'nobody'));
    const failed = once(client, 'error');
    expect(writeFirst(client, Buffer.from('status\n'))).toBe(0);
    expect((await failed)[0]).toMatchObject({ code: 'ENOENT' });
  });
});
