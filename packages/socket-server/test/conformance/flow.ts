import { setTimeout as delay } from 'node:timers/promises';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { CLOSE, DATA, uint32, WINDOW } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, pattern, Target } from './target.ts';

const CREDIT = 262_144;
const MIB = 1_048_576;

/** Credit. */
export function flowCases(runtime: TestedRuntime): void {
  it('sends a stream of any size as far as the host gives credit', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const bytes = pattern(8 * MIB);
    const [client, id] = await Client.open(server, target.sshSocket);
    client.write(bytes);
    expect((await server.data(id, bytes.length, true)).equals(bytes)).toBe(true);
  });

  it('stops a stream that has no credit left, and that one alone', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const bytes = pattern(CREDIT + 100_000);
    const [flooding, flood] = await Client.open(server, target.sshSocket);
    const [other, id] = await Client.open(server, target.sshSocket);
    flooding.write(bytes);
    const first = await server.data(flood, CREDIT);
    expect(first.length).toBe(CREDIT);
    other.write('goes on');
    await server.data(id, 7);
    expect(server.waiting).toEqual([]);
    server.send(WINDOW, flood, uint32(10));
    expect((await server.data(flood, 10)).length).toBe(10);
    server.send(WINDOW, flood, uint32(MIB));
    const rest = await server.data(flood, 100_000 - 10);
    expect(Buffer.concat([first, bytes.subarray(CREDIT, CREDIT + 10), rest]).equals(bytes)).toBe(true);
  });

  it('gives credit back as a client reads, and receives a stream of any size', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const bytes = pattern(8 * MIB);
    const [client, id] = await Client.open(server, target.sshSocket);
    let credit = CREDIT;
    for (let at = 0; at < bytes.length; ) {
      while (credit === 0) credit += (await server.next(WINDOW, id)).payload.readUInt32BE(0);
      const size = Math.min(credit, 50_000, bytes.length - at);
      server.send(DATA, id, bytes.subarray(at, at + size));
      credit -= size;
      at += size;
    }
    expect((await client.take(bytes.length)).equals(bytes)).toBe(true);
  });

  it('lets a client that does not read stall itself alone, and gives it no credit', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [stuck, stuckId] = await Client.open(server, target.sshSocket, { reads: false });
    const [other, id] = await Client.open(server, target.sshSocket);
    const bytes = pattern(3 * CREDIT);
    // What the kernel takes for the client is delivered and given back; then nothing is.
    let sent = 0;
    let credit = CREDIT;
    const answered = async () => {
      other.write('?');
      await server.data(id, 1);
      server.send(DATA, id, '!');
      await other.take(1);
    };
    for (let rounds = 0; rounds < 6 && sent < bytes.length; rounds++) {
      const size = Math.min(credit, bytes.length - sent);
      if (size > 0) server.send(DATA, stuckId, bytes.subarray(sent, sent + size));
      sent += size;
      credit -= size;
      await answered();
      for (const frame of server.waiting.filter(({ type }) => type === WINDOW)) {
        credit += (await server.take((other) => other === frame)).payload.readUInt32BE(0);
      }
    }
    expect(credit).toBe(0);
    expect(sent).toBeLessThan(bytes.length);
    stuck.read();
    expect((await stuck.take(sent)).equals(bytes.subarray(0, sent))).toBe(true);
    expect((await server.next(WINDOW, stuckId)).payload.readUInt32BE(0)).toBeGreaterThan(0);
  });

  it('closes a stream that gets more than its credit, and that one alone', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const [stuck, stuckId] = await Client.open(server, target.sshSocket, { reads: false });
    const [other, id] = await Client.open(server, target.sshSocket);
    server.send(DATA, stuckId, pattern(CREDIT));
    server.send(DATA, stuckId, pattern(CREDIT));
    await server.next(CLOSE, stuckId);
    stuck.read();
    await stuck.end();
    server.send(DATA, id, 'fine');
    await other.take(4);
  });

  it('bounds what it holds for a host that does not read', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    const clients: Client[] = [];
    for (let number = 0; number < 12; number++) {
      const [client, id] = await Client.open(server, target.sshSocket);
      server.send(WINDOW, id, uint32(2 * MIB));
      clients.push(client);
    }
    server.send(DATA, 1, 'x'); // behind all the credit
    await clients[0]!.take(1);
    server.child.stdout.pause();
    const bytes = pattern(2 * MIB);
    for (const client of clients) client.write(bytes);
    // The kernel and the server take a little of each; then the clients are not read any more.
    const before = await server.residentKiB();
    const taken = () => clients.reduce((sum, client) => sum + bytes.length - client.socket.writableLength, 0);
    for (let settled = -1; settled !== taken(); ) {
      settled = taken();
      await delay(200);
    }
    expect(taken()).toBeLessThan(12 * MIB);
    expect((await server.residentKiB()) - before).toBeLessThan(8 * 1024);
    server.child.stdout.resume();
    const sizes = new Map<number, number>();
    for (let total = 0; total < 12 * bytes.length; ) {
      const { stream, payload } = await server.next(DATA);
      sizes.set(stream, (sizes.get(stream) ?? 0) + payload.length);
      total += payload.length;
    }
    expect([...sizes.values()]).toEqual(Array(12).fill(bytes.length));
  });
}
