import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiEngine } from './api-engine.ts';

const EXEC = 'abc';

/** What a real engine does not do when it is asked to: be stuck, talk nonsense, break off. */
async function oddEngine(
  answer: RequestListener,
  onUpgrade?: (socket: Socket) => void,
  answerTimeoutMs = 30_000,
): Promise<ApiEngine> {
  const socketPath = join(await tempDir(), 's');
  const server = createServer(answer);
  if (onUpgrade) {
    server.on('upgrade', (_request, socket: Socket) => {
      socket.on('error', () => {});
      socket.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
      onUpgrade(socket);
    });
  }
  server.listen(socketPath);
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return new ApiEngine('docker', { kind: 'socket', path: socketPath }, { answerTimeoutMs });
}

/** Answers as an engine that runs a command and has its exit status from the given answers, in turn. */
function execAnswers(inspections: readonly object[]): RequestListener {
  let asked = 0;
  return (request, response) => {
    if (request.method === 'POST') response.writeHead(201).end(JSON.stringify({ Id: EXEC }));
    else response.writeHead(200).end(JSON.stringify(inspections[Math.min(asked++, inspections.length - 1)]));
  };
}

describe('ApiEngine', () => {
  it('does not wait for ever for an engine that is stuck', async () => {
    const engine = await oddEngine(() => {}, undefined, 200);
    await expect(engine.ping()).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: 'it did not answer within 0.2 s',
    });
  });

  it('says what the engine said', async () => {
    const engine = await oddEngine((_request, response) => {
      response.writeHead(500).end('{"message":"disk full."}');
    });
    await expect(engine.ping()).rejects.toMatchObject({ code: 'ENGINE_FAILED', why: 'disk full' });
    await expect(engine.exec('x', ['true'])).rejects.toMatchObject({
      code: 'ENGINE_FAILED',
      why: 'disk full',
    });
    await expect(engine.events({ container: 'x', actions: ['die'] })).rejects.toMatchObject({
      code: 'ENGINE_FAILED',
    });
  });

  it('bears an answer that is no JSON, or not the one asked for', async () => {
    for (const body of ['<html>', '[]', 'null']) {
      const engine = await oddEngine((_request, response) => response.writeHead(200).end(body));
      await expect(engine.inspectContainer('x')).rejects.toMatchObject({ code: 'ENGINE_FAILED' });
    }
  });

  it('does not wait for ever for one that makes something else of the connection', async () => {
    const engine = await oddEngine((_request, response) => {
      response.writeHead(101, { Connection: 'Upgrade', Upgrade: 'tcp' }).end();
    });
    for (const call of [engine.ping(), engine.inspectContainer('x'), engine.readFile('x', '/x')]) {
      await expect(call).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    }
  });

  it('does not wait for ever for one whose answer comes a byte at a time', async () => {
    const drips = new Set<NodeJS.Timeout>();
    onTestFinished(() => void [...drips].map(clearInterval));
    const drip = (write: () => void) => void drips.add(setInterval(write, 20));
    const bodies = await oddEngine((_request, response) => drip(() => response.write(' ')), undefined, 300);
    await expect(bodies.inspectContainer('x')).rejects.toMatchObject({
      code: 'ENGINE_FAILED',
      why: 'it was not complete within 0.3 s',
    });
    const heads = await oddEngine(
      ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\nX: ');
        drip(() => socket.write('x'));
      },
      undefined,
      300,
    );
    await expect(heads.inspectContainer('x')).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
      why: 'it did not answer within 0.3 s',
    });
  });

  it('gives up on an answer that is too long', async () => {
    const engine = await oddEngine((_request, response) => {
      response.writeHead(200).end(Buffer.alloc(5 * 1024 * 1024, 32));
    });
    await expect(engine.inspectContainer('x')).rejects.toMatchObject({ code: 'ENGINE_FAILED' });
  });

  it('fails when an answer breaks off', async () => {
    const engine = await oddEngine((_request, response) => {
      response.writeHead(200, { 'Content-Length': '100' });
      response.write('{');
      response.socket?.end();
    });
    await expect(engine.inspectContainer('x')).rejects.toMatchObject({ code: 'ENGINE_FAILED' });
  });

  it('asks again until the engine knows the exit status', async () => {
    const running = { Running: true, ExitCode: null };
    const answers = execAnswers([running, running, { Running: false, ExitCode: 3 }]);
    const engine = await oddEngine(answers, (socket) => socket.end());
    const stream = await engine.exec('x', ['true']);
    stream.stdout.resume();
    stream.stderr.resume();
    expect(await stream.exited).toEqual({ status: 3, signal: null });
  });

  it('does not know the exit status when the engine talks nonsense', async () => {
    const engine = await oddEngine(
      (request, response) => {
        if (request.method === 'POST') response.writeHead(201).end(JSON.stringify({ Id: EXEC }));
        else response.writeHead(200).end('<html>');
      },
      (socket) => socket.end(),
    );
    const stream = await engine.exec('x', ['true']);
    stream.stdout.resume();
    stream.stderr.resume();
    expect(await stream.exited).toEqual({ status: null, signal: null });
  });

  it('takes output that comes together with the answer', async () => {
    const engine = await oddEngine(execAnswers([{ Running: false, ExitCode: 0 }]), (socket) => {
      socket.end(Buffer.from('0100000000000002' + '6f6b', 'hex'));
    });
    const stream = await engine.exec('x', ['true']);
    stream.stderr.resume();
    expect((await buffer(stream.stdout)).toString()).toBe('ok');
  });

  it('ends a stream that is not framed as it should be', async () => {
    const engine = await oddEngine(execAnswers([{ Running: false, ExitCode: 0 }]), (socket) => {
      socket.write('this is a terminal');
    });
    const stream = await engine.exec('x', ['true']);
    stream.stderr.resume();
    expect(await buffer(stream.stdout)).toHaveLength(0);
    expect(await stream.exited).toEqual({ status: 0, signal: null });
  });
});
