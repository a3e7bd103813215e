import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { describe, expect, it } from 'vitest';
import { INITIAL_CREDIT } from './frame.ts';
import type { HostMuxer } from './host-muxer.ts';
import { type PipeHooks, pipeSocket } from './pipe.ts';
import type { MuxStream } from './stream.ts';
import type { TargetMuxer } from './target-muxer.ts';

interface Path {
  client: Socket;
  agent: Socket;
  near: MuxStream;
  far: MuxStream;
  host: HostMuxer;
  target: TargetMuxer;
  /** The sockets that the two pipes hold. */
  inner: Socket[];
}

/** client - socket - pipe - bridge - pipe - socket - agent, all of it real. */
async function path(hostHooks?: PipeHooks, targetHooks?: PipeHooks): Promise<Path> {
  const ends = await bridge();
  const [client, clientInner] = await socketPair();
  const [agent, agentInner] = await socketPair();
  const { near, far } = await ends.open();
  pipeSocket(near, clientInner, targetHooks);
  pipeSocket(far, agentInner, hostHooks);
  const { host, target } = ends;
  return { client, agent, near, far, host, target, inner: [clientInner, agentInner] };
}

const PERIOD = Uint8Array.from({ length: 251 }, (_, at) => at);
const pattern = (length: number): Buffer => Buffer.alloc(length, PERIOD);

describe('a piped socket', () => {
  it('passes bytes both ways', async () => {
    const { client, agent } = await path();
    client.write('GETINFO pid\n');
    expect((await readExactly(agent, 12)).toString()).toBe('GETINFO pid\n');
    agent.write('OK\n');
    expect((await readExactly(client, 3)).toString()).toBe('OK\n');
  });

  it('passes megabytes both ways at once, byte for byte', async () => {
    const { client, agent } = await path();
    const bytes = pattern(5_000_000);
    client.write(bytes);
    agent.write(bytes);
    const [there, back] = await Promise.all([
      readExactly(agent, bytes.length),
      readExactly(client, bytes.length),
    ]);
    expect(there.equals(bytes) && back.equals(bytes)).toBe(true);
  });

  it('holds a fast writer back while the reader is stuck, and loses nothing', async () => {
    const { client, agent, near, far, host, target, inner } = await path();
    const bytes = pattern(6_000_000);
    agent.write(bytes);
    await until(() => near.undelivered > 0 && far.unsent > 0);
    for (const muxer of [host, target]) {
      const { inbound, outbound } = muxer.stats.held;
      expect(inbound + outbound).toBeLessThanOrEqual(INITIAL_CREDIT + 200_000);
    }
    for (const socket of inner) {
      expect(socket.writableLength + socket.readableLength).toBeLessThanOrEqual(3 * 65_536);
    }
    expect((await readExactly(client, bytes.length)).equals(bytes)).toBe(true);
  });

  it('that the client closes is closed at the agent, after what was sent', async () => {
    const { client, agent, inner } = await path();
    client.end('BYE\n');
    expect((await readToEnd(agent)).toString()).toBe('BYE\n');
    await Promise.all(inner.filter((socket) => !socket.closed).map((socket) => once(socket, 'close')));
  });

  it('that the agent closes is closed at the client, after what was sent', async () => {
    const { client, agent, near, far, host, target } = await path();
    const bytes = pattern(100_000);
    agent.end(bytes);
    expect((await readToEnd(client)).equals(bytes)).toBe(true);
    await until(() => !near.open && !far.open);
    expect(host.stats.streams.open + target.stats.streams.open).toBe(0);
  });

  it('that fails takes its other end with it', async () => {
    let ended: (error: Error | undefined) => void;
    const over = new Promise<Error | undefined>((resolve) => {
      ended = resolve;
    });
    const { client, inner } = await path({ onEnd: (error) => ended(error) });
    inner[1]!.destroy(new Error('broken'));
    expect(await readToEnd(client)).toEqual(Buffer.alloc(0));
    expect(await over).toMatchObject({ message: 'broken' });
  });

  it('that is closed while the other end is stuck is let go, and the stream with it', async () => {
    const { client, agent, near, far } = await path();
    agent.write(pattern(5_000_000));
    await until(() => far.unsent > 0);
    agent.on('error', () => {}); // it is still writing
    client.destroy();
    await until(() => !near.open && !far.open && agent.resume().closed);
  });

  it('joined after the end of the stream gets what was sent, and ends', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.end('early');
    await until(() => !far.open);
    const [agent, inner] = await socketPair();
    pipeSocket(far, inner);
    expect((await readToEnd(agent)).toString()).toBe('early');
  });

  it('joined to a stream that was empty at its end just ends', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.destroy();
    await until(() => !far.open);
    const [agent, inner] = await socketPair();
    pipeSocket(far, inner);
    expect(await readToEnd(agent)).toEqual(Buffer.alloc(0));
  });

  it('that was closed before it was joined closes the stream', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const [, inner] = await socketPair();
    inner.destroy();
    await once(inner, 'close');
    let over = false;
    pipeSocket(far, inner, {
      onEnd: () => {
        over = true;
      },
    });
    expect(await readToEnd(near)).toEqual(Buffer.alloc(0));
    expect(over).toBe(true);
  });

  it('gets the bytes that the Duplex had read already', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.write('one');
    await once(far, 'readable');
    near.write('two');
    await until(() => far.undelivered === 6);
    const [agent, inner] = await socketPair();
    pipeSocket(far, inner);
    expect((await readExactly(agent, 6)).toString()).toBe('onetwo');
  });
});

describe('hooks of a pipe', () => {
  it('see and change what goes through, and can answer', async () => {
    const { client, agent } = await path({
      fromStream(bytes, out) {
        if (bytes.toString().startsWith('no')) out.toStream(Buffer.from('refused'));
        else out.toSocket(Buffer.from(bytes.toString().toUpperCase()));
      },
      fromSocket: (bytes, out) => out.toStream(Buffer.concat([Buffer.from('>'), bytes])),
    });
    client.write('no way');
    expect((await readExactly(client, 7)).toString()).toBe('refused');
    client.write('yes');
    expect((await readExactly(agent, 3)).toString()).toBe('YES');
    agent.write('ok');
    expect((await readExactly(client, 3)).toString()).toBe('>ok');
  });

  it('that answer everything are held back when nobody reads the answers', async () => {
    const { client, far, host, target } = await path({
      fromStream: (bytes, out) => out.toStream(Buffer.from(bytes)),
    });
    const bytes = pattern(4_000_000);
    client.write(bytes);
    await until(() => far.unsent > 0 && far.undelivered > 0);
    for (const muxer of [host, target]) {
      const { inbound, outbound } = muxer.stats.held;
      expect(inbound + outbound).toBeLessThanOrEqual(2 * INITIAL_CREDIT + 200_000);
    }
    expect((await readExactly(client, bytes.length)).equals(bytes)).toBe(true);
  });

  it('have the last word when the socket ends, and when the bridge does', async () => {
    const first = await path({
      onSocketEnd: (_error, out) => out.toStream(Buffer.from('the agent closed')),
    });
    first.agent.destroy();
    expect((await readToEnd(first.client)).toString()).toBe('the agent closed');

    const second = await path(undefined, {
      onStreamEnd: (failure, out) => out.toSocket(Buffer.from(`ended: ${failure?.code}`)),
    });
    second.host.close();
    expect((await readToEnd(second.client)).toString()).toBe('ended: TARGET_CLOSED');
  });

  it('that fail end their session, and say so', async () => {
    let ended: (error: Error | undefined) => void;
    const over = new Promise<Error | undefined>((resolve) => {
      ended = resolve;
    });
    const { client, agent } = await path({
      fromStream() {
        throw new Error('malformed');
      },
      onEnd: (error) => ended(error),
    });
    client.write('x');
    expect(await over).toMatchObject({ message: 'malformed' });
    expect(await readToEnd(client)).toEqual(Buffer.alloc(0));
    expect(await readToEnd(agent)).toEqual(Buffer.alloc(0));
  });
});
