import { once } from 'node:events';
import type { Socket } from 'node:net';
import { bridge, until } from '@gpg-bridge/test-support/mux-pair';
import { readExactly, readToEnd, socketPair } from '@gpg-bridge/test-support/socket-pair';
import { readStream } from '@gpg-bridge/test-support/stream-recorder';
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

/**
 * client - socket - pipe - bridge - pipe - socket - agent, all of it real. As in the product, the client's
 * socket may be half open and the agent's ends when the agent does.
 */
async function path(hostHooks?: PipeHooks, targetHooks?: PipeHooks): Promise<Path> {
  const ends = await bridge();
  const [client, clientInner] = await socketPair();
  const [agentInner, agent] = await socketPair({ allowHalfOpen: false });
  const { near, far } = await ends.open();
  pipeSocket(near, clientInner, targetHooks);
  pipeSocket(far, agentInner, hostHooks);
  const { host, target } = ends;
  return { client, agent, near, far, host, target, inner: [clientInner, agentInner] };
}

const PERIOD = Uint8Array.from({ length: 251 }, (_, at) => at);
const pattern = (length: number): Buffer => Buffer.alloc(length, PERIOD);

/** Everything that a client sent; the agent can still answer. */
const readQuestion = (agent: Socket): Promise<Buffer> =>
  readToEnd(agent.iterator({ destroyOnReturn: false }));

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
    expect((await readQuestion(agent)).toString()).toBe('BYE\n');
    agent.end();
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
    near.send(Buffer.from('early'));
    near.finish();
    await until(() => !far.open);
    const [agent, inner] = await socketPair();
    pipeSocket(far, inner);
    expect((await readToEnd(agent)).toString()).toBe('early');
  });

  it('joined to a stream that was empty at its end just ends', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.discard();
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
    expect(await readStream(near)).toEqual(Buffer.alloc(0));
    expect(over).toBe(true);
  });

  it('gets the bytes that had come before it was joined', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    near.send(Buffer.from('one'));
    near.send(Buffer.from('two'));
    await until(() => far.undelivered === 6);
    const [agent, inner] = await socketPair();
    pipeSocket(far, inner);
    near.send(Buffer.from('three'));
    expect((await readExactly(agent, 11)).toString()).toBe('onetwothree');
  });
});

describe('a client that has sent its last byte', () => {
  it('still gets everything that it waits for, and then its end', async () => {
    const { client, agent, near, far, host, target, inner } = await path();
    const [question, answer] = [pattern(600_000), pattern(3_000_000)];
    client.end(question);
    expect((await readQuestion(agent)).equals(question)).toBe(true);
    expect(near.open && far.open).toBe(true);
    expect(client.readableEnded).toBe(false);
    agent.end(answer);
    expect((await readToEnd(client)).equals(answer)).toBe(true);
    await Promise.all(inner.filter((socket) => !socket.closed).map((socket) => once(socket, 'close')));
    expect(host.stats.streams.open + target.stats.streams.open).toBe(0);
    expect(near.failure ?? far.failure).toBeUndefined();
  });

  it('gets what the agent says in between, with hooks on the way', async () => {
    const seen: string[] = [];
    const { client, agent } = await path({
      fromStream(bytes, out) {
        seen.push(`> ${bytes}`);
        out.toSocket(bytes);
        return true;
      },
      fromSocket(bytes, out) {
        seen.push(`< ${bytes}`);
        out.toStream(bytes);
      },
      onSocketEnd: (_error, out) => out.toStream(Buffer.from('and no more')),
    });
    client.end('LAST');
    expect((await readQuestion(agent)).toString()).toBe('LAST');
    agent.write('S progress\n');
    expect((await readExactly(client, 11)).toString()).toBe('S progress\n');
    agent.end('OK\n');
    expect((await readToEnd(client)).toString()).toBe('OK\nand no more');
    expect(seen).toEqual(['> LAST', '< S progress\n', '< OK\n']);
  });

  it('has it delivered to an agent that is slow to read', async () => {
    const { client, agent, near, far } = await path();
    const question = pattern(3_000_000);
    client.end(question);
    await until(() => far.undelivered > 0 && near.unsent > 0);
    expect((await readQuestion(agent)).equals(question)).toBe(true);
    agent.end('OK');
    expect((await readToEnd(client)).toString()).toBe('OK');
  });

  it('gets what it waits for while it is slow to read', async () => {
    const { client, agent, near, far } = await path();
    const answer = pattern(3_000_000);
    client.end('?');
    await readQuestion(agent);
    agent.end(answer);
    await until(() => near.undelivered > 0 && far.unsent > 0);
    expect((await readToEnd(client)).equals(answer)).toBe(true);
  });

  it('and is gone takes the session with it once something is sent to it', async () => {
    const { client, agent, near, far } = await path();
    client.end('?');
    expect((await readQuestion(agent)).toString()).toBe('?');
    client.destroy();
    await once(client, 'close');
    agent.on('error', () => {}); // it is still writing
    agent.write(pattern(1_000_000));
    await until(() => !near.open && !far.open && agent.closed);
  });

  it('before its socket or the agent was joined is served all the same', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const [client, clientInner] = await socketPair();
    client.end('early');
    // Somebody has read it to its end, so that no event of that will come.
    near.send(await readExactly(clientInner, 5));
    await once(clientInner.resume(), 'end');
    pipeSocket(near, clientInner);
    await until(() => far.receiveCredit === 0);
    const [agentInner, agent] = await socketPair({ allowHalfOpen: false });
    pipeSocket(far, agentInner);
    expect((await readQuestion(agent)).toString()).toBe('early');
    agent.end('answer');
    expect((await readToEnd(client)).toString()).toBe('answer');
  });
});

describe('a socket that may not be half open', () => {
  it('closes its stream with its last byte', async () => {
    const ends = await bridge();
    const { near, far } = await ends.open();
    const [inner, agent] = await socketPair({ allowHalfOpen: false });
    pipeSocket(far, inner);
    agent.end('last');
    expect((await readStream(near)).toString()).toBe('last');
    expect(near.open || far.open).toBe(false);
    expect(await readToEnd(agent)).toEqual(Buffer.alloc(0));
  });
});

describe('hooks of a pipe', () => {
  it('see and change what goes through, and can answer', async () => {
    const { client, agent } = await path({
      fromStream(bytes, out) {
        if (bytes.toString().startsWith('no')) out.toStream(Buffer.from('refused'));
        else out.toSocket(Buffer.from(bytes.toString().toUpperCase()));
        return true;
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
      fromStream(bytes, out) {
        out.toStream(Buffer.from(bytes));
        return true;
      },
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

  it('have the last word when the socket ends', async () => {
    const { client, agent } = await path({
      onSocketEnd: (_error, out) => out.toStream(Buffer.from('the agent closed')),
    });
    agent.destroy();
    expect((await readToEnd(client)).toString()).toBe('the agent closed');
  });

  it('have no word when the bridge ends, and both sockets are let go', async () => {
    let words = 0;
    const { client, agent, host, near, far } = await path({
      onSocketEnd: () => {
        words += 1;
      },
    });
    host.close();
    expect(await readToEnd(client)).toEqual(Buffer.alloc(0));
    expect(await readToEnd(agent)).toEqual(Buffer.alloc(0));
    expect(words).toBe(0);
    expect(far.failure).toBeUndefined();
    expect(near.failure).toMatchObject({ code: 'TARGET_CLOSED' });
  });

  it.each([
    [true, 'at once'],
    [false, 'once it is taken'],
  ])(
    'that hold back what was sent before a close are told of that (dropsAtClose: %s) %s',
    async (dropsAtClose, _when) => {
      const taken: number[] = [];
      let isOver = false;
      const { near, far } = await path({
        dropsAtClose,
        fromStream: ({ length }) => taken.push(length) < 0,
        onStreamEnd() {
          isOver = true;
          return false;
        },
      });
      near.send(Buffer.from('first'));
      await until(() => taken.length === 1);
      near.send(Buffer.from('second'));
      near.discard();
      await until(() => !far.open);
      expect([taken, far.undelivered, isOver]).toEqual([[5], dropsAtClose ? 0 : 6, dropsAtClose]);
    },
  );

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
