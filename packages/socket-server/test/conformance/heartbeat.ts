import { existsSync } from 'node:fs';
import { runOk, stopProcess } from '@gpg-bridge/test-support/process';
import type { TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { DATA, PING, PONG } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, Target } from './target.ts';

/** Short ticks; what is lost after three of them is lost in less than a second. */
const QUICK = { tickMs: 100, maxUnanswered: 3, idleTicks: 8 };
/** So many that a test on a busy machine is not late with its answers, and more of them in not much time. */
const STEADY = { tickMs: 50, maxUnanswered: 30, idleTicks: 10 };
const LONGER = STEADY.maxUnanswered + 10;

/** A clock that Perl reads and a signal moves: a day ahead, two back, and so on. */
const JUMPING_CLOCK = `BEGIN { *CORE::GLOBAL::time = sub { CORE::time() + ($main::ahead || 0) } }
$SIG{USR2} = sub { $main::ahead = ($main::ahead || 0) > 0 ? -86_400 : 86_400 };
`;

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
    const server = await target.serveSsh(STEADY);
    const [client, id] = await Client.open(server, target.sshSocket);
    await server.pinged(LONGER);
    server.send(DATA, id, 'still here');
    expect((await client.take(10)).toString()).toBe('still here');
  });

  it('takes any byte for a sign of life', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(STEADY);
    const [client, id] = await Client.open(server, target.sshSocket);
    server.answersPings = false;
    for (let pings = 0; pings < LONGER; pings++) {
      await server.pinged(1);
      server.send(DATA, id, 'x');
      await client.take(1);
    }
  });

  it('asks little while nothing is open', async () => {
    const target = await Target.create(runtime);
    const server = await target.serveSsh(STEADY);
    await server.pinged(1);
    const started = performance.now();
    await server.pinged(3);
    // Never sooner, however busy the machine is.
    expect(performance.now() - started).toBeGreaterThan(2 * STEADY.idleTicks * STEADY.tickMs);
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
    const server = await target.serveSsh(STEADY);
    const [client, id] = await Client.open(server, target.sshSocket);
    await stopProcess(server.child.pid!);
    await runOk('sleep', [String((2 * STEADY.maxUnanswered * STEADY.tickMs) / 1000)]);
    server.child.kill('SIGCONT');
    await server.pinged(2);
    server.send(DATA, id, 'still here');
    expect((await client.take(10)).toString()).toBe('still here');
  });

  // The other runtimes have a clock that nobody sets.
  if (runtime !== 'perl') return;

  it('bears a clock that jumps, and notices the end all the same', async () => {
    const target = await Target.create(runtime);
    const server = await target.serve({ ssh: true, ...STEADY }, { prelude: JUMPING_CLOCK });
    await server.ready();
    const [client, id] = await Client.open(server, target.sshSocket);
    for (let jumps = 0; jumps < 4; jumps++) {
      server.child.kill('SIGUSR2');
      await server.pinged(3);
      server.send(DATA, id, 'still here');
      expect((await client.take(10)).toString()).toBe('still here');
    }
    server.answersPings = false;
    await client.end();
    client.socket.destroy();
    expect(await server.exited).toBe(1);
  });
}
