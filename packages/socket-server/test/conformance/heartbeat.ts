import { existsSync } from 'node:fs';
import { runOk, stopProcess } from '@gpg-bridge/test-support/process';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { DATA, PING, PONG } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, Target } from './target.ts';

/** Short ticks; what is lost after three of them is lost in less than a second. */
const QUICK = { tickMs: 100, maxUnanswered: 3, idleTicks: 8 };

/** Whether the host is there. */
export function heartbeatCases(runtime: TestedRuntime): void {
  it('answers PING with PONG', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh();
    for (const stream of [0, 0, 7]) {
      server.send(PING, stream);
      expect(await server.next(PONG)).toMatchObject({ stream: 0, payload: Buffer.alloc(0) });
    }
  });

  it('asks while a client is connected, and goes on as long as the host answers', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(QUICK);
    const [client, id] = await Client.open(server, target.sshSocket);
    await server.pinged(4 * QUICK.maxUnanswered);
    server.send(DATA, id, 'still here');
    expect((await client.take(10)).toString()).toBe('still here');
  });

  it('takes any byte for a sign of life', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(QUICK);
    const [client, id] = await Client.open(server, target.sshSocket);
    server.answersPings = false;
    for (let pings = 0; pings < 4 * QUICK.maxUnanswered; pings++) {
      await server.pinged(1);
      server.send(DATA, id, 'x');
      await client.take(1);
    }
  });

  it('asks little while nothing is open', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(QUICK);
    await server.pinged(1);
    const started = performance.now();
    await server.pinged(3);
    // Never sooner, however busy the machine is.
    expect(performance.now() - started).toBeGreaterThan(2 * QUICK.idleTicks * QUICK.tickMs);
  });

  it('ends when a session gets no sign of life, and removes its sockets', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(QUICK);
    server.answersPings = false;
    const client = await Client.connect(target.sshSocket);
    await client.end();
    await target.expectNoSockets();
    client.socket.destroy();
    expect(await server.exited).toBe(1);
    expect(server.pings).toBe(QUICK.maxUnanswered);
  });

  it('ends without a session, too', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh({ ...QUICK, idleTicks: 2 });
    server.answersPings = false;
    expect(await server.exited).toBe(1);
    await target.expectNoSockets();
  });

  it('ends when a program that it runs gets no sign of life', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh({ ...QUICK, idleTicks: 1_000 });
    server.answersPings = false;
    server.operations.run({ program: 'sleep', args: ['30'] }).catch(() => {});
    expect(await server.exited).toBe(1);
    await target.expectNoSockets();
  });

  it('leaves the socket of a newer bridge where it is', async () => {
    const target = await Target.create(runtime);
    const old = await target.serveSsh(QUICK);
    const abandoned = await Client.connect(target.sshSocket);
    old.answersPings = false;
    old.child.stdout.pause(); // its host is gone
    const newer = await target.serve({ ssh: true, takeover: true });
    expect((await newer.ready()).failures).toEqual([]);
    await abandoned.end();
    abandoned.socket.destroy();
    old.child.stdout.resume();
    expect(await old.exited).toBe(1);
    const [client, id] = await Client.open(newer, target.sshSocket);
    newer.send(DATA, id, 'the newer one');
    expect((await client.take(13)).toString()).toBe('the newer one');
    await newer.stop();
    expect(existsSync(target.sshSocket)).toBe(false);
  });

  it('does not count the time in which it stands still itself', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(QUICK);
    const [client, id] = await Client.open(server, target.sshSocket);
    const pid = server.child.pid!;
    for (let rounds = 0; rounds < 3; rounds++) {
      await stopProcess(pid);
      await runOk('sleep', [String((2 * QUICK.maxUnanswered * QUICK.tickMs) / 1000)]);
      server.child.kill('SIGCONT');
      await server.pinged(1);
    }
    server.send(DATA, id, 'still here');
    expect((await client.take(10)).toString()).toBe('still here');
  });
}
