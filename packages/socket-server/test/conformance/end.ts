import net from 'node:net';
import { stopProcess } from '@gpg-bridge/test-support/process';
import type { RunningServer, TestedRuntime } from '@gpg-bridge/test-support/socket-server';
import { CLOSE, DATA, OPEN } from '@gpg-bridge/test-support/wire';
import { expect, it } from 'vitest';
import { Client, Target } from './target.ts';

const GREETING = 'OK Pleased to meet you\n';
const WORDS = /^ERR 67108941 No agent running <GPG Agent> - [^\n]+\n$/;
const GREETED = /^OK GPG Bridge\nERR 67108941 No agent running <GPG Agent> - [^\n]+\n$/;

async function gpgServer(
  runtime: TestedRuntime,
): Promise<{ target: Target; server: RunningServer; path: string }> {
  const target = await Target.create(runtime);
  const server = await target.serve({ gpg: true, ssh: true });
  await server.ready();
  return { target, server, path: await target.gpgSocket() };
}

/** What a client still gets, to its end. */
async function rest(client: Client): Promise<string> {
  await client.end();
  client.socket.destroy();
  return (await client.take(client.size)).toString();
}

/** What clients are told when the bridge ends. */
export function endCases(runtime: TestedRuntime): void {
  const endings: [string, (server: RunningServer) => void][] = [
    ['its host closes', (server) => server.child.stdin.end()],
    ['it gets SIGTERM', (server) => server.child.kill('SIGTERM')],
    ['its host does not read', (server) => server.child.stdout.destroy()],
  ];

  it.each(endings)('tells every client so when %s', async (_name, end) => {
    const { target, server, path } = await gpgServer(runtime);
    const [ungreeted] = await Client.open(server, path);
    const [greeted, id] = await Client.open(server, path);
    const [half, halfId] = await Client.open(server, path);
    const [ssh, sshId] = await Client.open(server, target.sshSocket);
    server.send(DATA, id, GREETING);
    server.send(DATA, halfId, `${GREETING}D half a line`);
    server.send(DATA, sshId, '\n');
    await greeted.take(GREETING.length);
    await half.take(GREETING.length + 13);
    await ssh.take(1);
    end(server);
    greeted.write('GETINFO version\n');
    expect(await rest(greeted)).toMatch(WORDS);
    expect(await rest(ungreeted)).toMatch(GREETED);
    expect(await rest(half)).toBe('');
    expect(await rest(ssh)).toBe('');
    await server.exited;
    await target.expectNoSockets();
  });

  it('tells those that it has not accepted yet', async () => {
    const { server, path } = await gpgServer(runtime);
    await stopProcess(server.child.pid!);
    const clients = await Promise.all(Array.from({ length: 20 }, () => Client.connect(path)));
    server.child.stdin.end();
    server.child.kill('SIGCONT');
    for (const client of clients) expect(await rest(client)).toMatch(GREETED);
    expect(await server.exited).toBe(0);
  });

  it('lets a client say what it wants to, and answers that', async () => {
    const { server, path } = await gpgServer(runtime);
    const [client] = await Client.open(server, path);
    server.child.stdin.end();
    const greeting = (await client.take('OK GPG Bridge\n'.length)).toString();
    // As gpg does: it has been greeted, so it asks, and reads the answer.
    await new Promise<void>((resolve, reject) => {
      client.socket.write('RESET\n', (error) => (error ? reject(error) : resolve()));
    });
    expect(greeting + (await rest(client))).toMatch(GREETED);
    expect(await server.exited).toBe(0);
  });

  it('waits only a moment for clients that stay', async () => {
    const { server, path } = await gpgServer(runtime);
    await Client.open(server, path);
    server.child.stdin.end();
    expect(await server.exited).toBe(0);
  });

  it('says nothing of it to a client whose session the host ends', async () => {
    const { server, path } = await gpgServer(runtime);
    const [client, id] = await Client.open(server, path);
    server.send(DATA, id, `${GREETING}OK closing connection\n`);
    server.send(CLOSE, id);
    expect(await rest(client)).toBe(`${GREETING}OK closing connection\n`);
  });

  it('serves clients of a socket that is released', async () => {
    const { target, server } = await gpgServer(runtime);
    const path = target.sshSocket;
    await stopProcess(server.child.pid!);
    const socket = net.connect(path);
    const released = server.operations.release('ssh-agent');
    server.child.kill('SIGCONT');
    await released;
    expect((await server.next(OPEN)).payload.toString()).toBe('ssh-agent');
    socket.destroy();
  });
}
