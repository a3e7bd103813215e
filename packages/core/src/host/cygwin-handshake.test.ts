import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { TcpAgent, type TcpAgentOptions } from '@gpg-bridge/test-support/tcp-agent';
import { expect, onTestFinished, test } from 'vitest';
import { cygwinHandshake } from './cygwin-handshake.ts';

const nonce = Buffer.from('0a0d00ff0102030405060708090a0b0c', 'hex');

async function connected(port: number): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

async function shaken(form: TcpAgentOptions['form'], key: string, silenceMs?: number) {
  const agent = await TcpAgent.start({ nonce, ...(form && { form }) });
  const socket = await connected(agent.port);
  const outcome = await cygwinHandshake(socket, nonce, key, silenceMs);
  return { agent, socket, outcome };
}

async function readLine(socket: net.Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    text += (chunk as Buffer).toString('latin1');
    if (text.endsWith('\n')) break;
  }
  return text;
}

test("libassuan's 8 bytes of credentials, and nothing beyond them", async () => {
  // A silence so long that only the 8-byte answer can end the handshake.
  const { agent, socket, outcome } = await shaken('cygwin8', randomUUID(), 1e9);
  expect(outcome).toBe('done');
  expect(agent.credentials.map((sent) => sent.readUInt32LE(0))).toEqual([process.pid]);
  expect(await readLine(socket)).toBe('OK Pleased to meet you, process 1\n');
  socket.write('NOP\n');
  expect(await readLine(socket)).toBe('OK\n');
  expect(agent.commands).toEqual(['NOP']);
});

test("Cygwin's 12 bytes once 8 went unanswered, and at once from then on", async () => {
  const key = randomUUID();
  for (const silenceMs of [10, 1e9]) {
    const { agent, socket, outcome } = await shaken('cygwin12', key, silenceMs);
    expect(outcome).toBe('done');
    expect(agent.credentials).toHaveLength(1);
    expect(await readLine(socket)).toBe('OK Pleased to meet you, process 1\n');
  }
});

test('a greeting right behind the credentials, and bytes one by one, are nobody else’s', async () => {
  for (const step of [1, 3, 100]) {
    const server = net.createServer((socket) => {
      socket.setNoDelay(true);
      const answer = Buffer.concat([nonce, Buffer.alloc(8), Buffer.from('OK hello\n')]);
      for (let at = 0; at < answer.length; at += step) socket.write(answer.subarray(at, at + step));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const socket = await connected((server.address() as net.AddressInfo).port);
    expect(await cygwinHandshake(socket, nonce, randomUUID())).toBe('done');
    expect(await readLine(socket)).toBe('OK hello\n');
    socket.destroy();
  }
});

test.each(['fin', 'reset'] as const)('a nonce that is refused (%s)', async (onWrongNonce) => {
  const agent = await TcpAgent.start({ nonce: randomBytes(16), form: 'cygwin8', onWrongNonce });
  const socket = await connected(agent.port);
  expect(await cygwinHandshake(socket, nonce, randomUUID())).toBe('closed');
});

test('another program that gives something else back', async () => {
  const agent = await TcpAgent.start({ nonce, form: 'cygwin8', echo: randomBytes(16) });
  const socket = await connected(agent.port);
  expect(await cygwinHandshake(socket, nonce, randomUUID())).toBe('wrong-echo');
  expect(agent.credentials).toEqual([]);
});
