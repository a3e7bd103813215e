import { once } from 'node:events';
import { stopProcess } from '@gpg-bridge/test-support/process';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import {
  CLOSE,
  DATA,
  EOF,
  ERROR,
  OPEN,
  PUBKEY,
  READY,
  uint32,
  WINDOW,
  wireFrame,
} from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, pattern, Target } from './target.ts';

/** OPEN, DATA and CLOSE, and what comes of frames that are none of them. */
export function streamCases(runtime: TestedRuntime): void {
  it('carries bytes both ways, and a close of either side', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const client = await Client.connect(target.sshSocket);
    const open = await server.next(OPEN);
    expect(open).toMatchObject({ stream: 1, payload: Buffer.from('ssh-agent') });

    client.write('question');
    expect((await server.data(1, 8)).toString()).toBe('question');
    server.send(DATA, 1, 'answer');
    expect((await client.take(6)).toString()).toBe('answer');
    client.socket.end();
    expect(await server.next(EOF, 1)).toMatchObject({ payload: Buffer.alloc(0) });
    server.send(CLOSE, 1);
    await client.end();

    const [second, id] = await Client.open(server, target.sshSocket);
    server.send(CLOSE, id);
    await second.end();
  });

  it('names the socket that a client came by', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ gpg: true, ssh: true });
    const { sockets } = await server.ready();
    for (const { type, path } of sockets) {
      await Client.connect(path);
      expect((await server.next(OPEN)).payload.toString()).toBe(type);
    }
  });

  it('counts stream ids from 1 up and uses none twice', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const ids: number[] = [];
    for (let round = 0; round < 6; round++) {
      const [client, id] = await Client.open(server, target.sshSocket);
      ids.push(id);
      if (round % 2) {
        client.socket.end();
        await server.next(EOF, id);
        server.send(CLOSE, id);
      } else {
        server.send(CLOSE, id);
        await client.end();
      }
    }
    expect(ids).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('changes no byte of any value, whatever the chunks', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [client, id] = await Client.open(server, target.sshSocket);
    const bytes = Buffer.concat([Buffer.from([...Array(256).keys()]), pattern(3_000)]);
    for (let at = 0; at < bytes.length; at += 97) client.write(bytes.subarray(at, at + 97));
    expect((await server.data(id, bytes.length)).equals(bytes)).toBe(true);

    // The carrier cuts frames anywhere.
    const frames = Buffer.concat([wireFrame(DATA, id, bytes), wireFrame(DATA, id, 'end')]);
    for (let at = 0; at < frames.length; at += 7) server.sendRaw(frames.subarray(at, at + 7));
    expect((await client.take(bytes.length)).equals(bytes)).toBe(true);
    expect((await client.take(3)).toString()).toBe('end');
  });

  it('waits for the rest of a frame, wherever it was cut', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    server.answersPings = false; // in the middle of a frame
    const [client, id] = await Client.open(server, target.sshSocket);
    const [waker, wakerId] = await Client.open(server, target.sshSocket);
    const frames = Buffer.concat([wireFrame(DATA, id, 'abc'), wireFrame(WINDOW, id, uint32(1))]);
    for (let cut = 1; cut < frames.length; cut++) {
      server.sendRaw(frames.subarray(0, cut));
      // What comes from the host is looked at before a client is: by the answer the first part has been read.
      waker.write('w');
      await server.data(wakerId, 1);
      server.sendRaw(frames.subarray(cut));
      expect((await client.take(3)).toString()).toBe('abc');
    }
  });

  it('delivers what was sent before a CLOSE first', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const bytes = pattern(250_000);
    const [slow, id] = await Client.open(server, target.sshSocket, { reads: false });
    server.send(DATA, id, bytes);
    server.send(CLOSE, id);
    // Later frames are handled by now, so that CLOSE has been seen before the client reads.
    const [other, otherId] = await Client.open(server, target.sshSocket);
    server.send(DATA, otherId, 'x');
    await other.take(1);
    slow.read();
    expect((await slow.take(bytes.length)).equals(bytes)).toBe(true);
    await slow.end();

    const [quick, quickId] = await Client.open(server, target.sshSocket);
    quick.socket.end(bytes);
    expect((await server.data(quickId, bytes.length)).equals(bytes)).toBe(true);
    await server.next(EOF, quickId);
  });

  it('answers a client that has ended its own side', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [client, id] = await Client.open(server, target.sshSocket);
    client.socket.end('the last question');
    expect((await server.data(id, 17)).toString()).toBe('the last question');
    await server.next(EOF, id);
    const answer = pattern(200_000);
    server.send(DATA, id, answer);
    server.send(CLOSE, id);
    expect((await client.take(answer.length)).equals(answer)).toBe(true);
    await client.end();
    expect(server.waiting.filter(({ type }) => type === CLOSE)).toEqual([]);
  });

  it('closes the stream of a client that is gone while the host still sends', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [client, id] = await Client.open(server, target.sshSocket, { reads: false });
    const [other, otherId] = await Client.open(server, target.sshSocket);
    server.send(DATA, id, pattern(200_000));
    client.socket.destroy();
    server.send(DATA, id, 'nobody takes this');
    await server.next(CLOSE, id);
    server.send(DATA, id, 'nor this');
    server.send(DATA, otherId, 'but this');
    expect((await other.take(8)).toString()).toBe('but this');
  });

  it('passes on the last words of a client that is gone while the host still sends', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    for (let round = 0; round < 5; round++) {
      const [client, id] = await Client.open(server, target.sshSocket);
      const bytes = pattern(100_000);
      // The server finds all of it at once: what the client sent, that it has gone, and data for it.
      await stopProcess(server.child.pid!);
      const closed = once(client.socket, 'close');
      client.socket.write(bytes, () => client.socket.destroy());
      await closed;
      for (let frames = 0; frames < 8; frames++) server.send(DATA, id, 'nobody takes this');
      server.child.kill('SIGCONT');
      expect((await server.data(id, bytes.length)).equals(bytes)).toBe(true);
      server.send(CLOSE, id);
    }
  });

  it('serves hundreds of clients at once', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const clients = await Promise.all(Array.from({ length: 300 }, () => Client.connect(target.sshSocket)));
    clients.forEach((client, index) => {
      client.write(`${String(index).padStart(4, '0')} from the client`);
    });
    const seen = new Set<string>();
    for (const _client of clients) {
      const { stream } = await server.next(OPEN);
      const number = (await server.data(stream, 20)).toString().slice(0, 4);
      seen.add(number);
      server.send(DATA, stream, `${number} from the host`);
    }
    expect(seen.size).toBe(300);
    await Promise.all(
      clients.map(async (client, index) =>
        expect((await client.take(18)).toString()).toBe(`${String(index).padStart(4, '0')} from the host`),
      ),
    );
  });

  it('keeps clients beyond the limit of streams until their turn', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh({ maxStreams: 2 });
    const clients = [];
    for (let number = 0; number < 3; number++) clients.push(await Client.connect(target.sshSocket));
    const first = await server.next(OPEN);
    await server.next(OPEN);
    // The third has no stream; the others work.
    clients[0]!.write('works');
    await server.data(first.stream, 5);
    expect(server.waiting.some(({ type }) => type === OPEN)).toBe(false);
    server.send(CLOSE, first.stream);
    expect((await server.next(OPEN)).stream).toBe(3);
  });

  it('ignores frames that it does not know or that are for no stream', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [client, id] = await Client.open(server, target.sshSocket);
    for (const type of [0, 10, 77, 255]) server.send(type, id, 'unknown');
    for (const type of [OPEN, READY, ERROR, EOF]) server.send(type, id, 'gpg-agent');
    for (const type of [DATA, CLOSE]) server.send(type, 99, type === DATA ? 'nobody' : '');
    server.send(DATA, 0, 'the bridge itself');
    server.send(WINDOW, 99, uint32(5));
    server.send(WINDOW, id, 'odd');
    server.send(DATA, id, '');
    server.send(DATA, id, 'still here');
    expect((await client.take(10)).toString()).toBe('still here');
    client.write('and back');
    expect((await server.data(id, 8)).toString()).toBe('and back');
  });

  it.each([0, 4, 1_048_577, 0xffff_ffff])('ends when a frame has the length %d', async (length) => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    server.sendRaw(uint32(length));
    const { payload } = await server.next(ERROR);
    expect(payload.toString()).toContain(`${length} bytes`);
    expect(await server.exited).toBe(1);
    await target.expectNoSockets();
  });

  it('takes a frame of the greatest length', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const bytes = pattern(1_048_576 - 5);
    server.send(PUBKEY, 0, bytes);
    const { stdout } = await server.operations.run({ program: 'wc', args: ['-c'] });
    expect(Number(stdout)).toBe(bytes.length);
  });
}
