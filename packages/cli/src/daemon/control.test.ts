import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon, type ControlRequest, serveControl } from './control.ts';

async function listening(onConnection: (socket: net.Socket) => void) {
  const path = join(await tempDir(), 's');
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => {
    sockets.push(socket);
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroySoon();
  };
  onTestFinished(close);
  return { path, close };
}

describe('the control socket', () => {
  it('answers a request with one document', async () => {
    const asked: ControlRequest[] = [];
    const { path } = await listening((socket) =>
      serveControl(socket, async (request) => {
        asked.push(request);
        return { target: 'bøx', big: 'x'.repeat(200_000) };
      }),
    );
    expect(await askDaemon(path, 'status')).toMatchObject({ target: 'bøx', big: 'x'.repeat(200_000) });
    expect(await askDaemon(path, 'ready')).toBeDefined();
    expect(asked).toEqual(['status', 'ready']);
  });

  it('makes up for what an older daemon does not say', async () => {
    const { path } = await listening((socket) => serveControl(socket, async () => ({ pid: 1 })));
    expect(await askDaemon(path, 'status')).toEqual({
      pid: 1,
      user: '',
      problems: [],
      working: [],
      failures: [],
      mended: [],
      nextAttempt: null,
      endsAt: null,
      paused: null,
      leftOut: [],
      offers: { gpg: null, ssh: null },
      stateSeconds: 0,
      followsName: false,
      missing: [],
      notes: [],
    });
  });

  it('is heard although whoever asks stood still for longer than an answer may take', async () => {
    const path = join(await tempDir(), 's');
    const answered = new Int32Array(new SharedArrayBuffer(4));
    const daemon = new Worker(
      `const { workerData: { path, answered }, parentPort } = require('node:worker_threads');
      require('node:net').createServer((socket) => socket.once('data', () => socket.write('{"pid":1}\\n', () => {
        Atomics.store(answered, 0, 1);
        Atomics.notify(answered, 0);
      }))).listen(path, () => parentPort.postMessage('up'));`,
      { eval: true, workerData: { path, answered } },
    );
    onTestFinished(() => daemon.terminate().then(() => {}));
    await once(daemon, 'message');
    const asked = askDaemon(path, 'status', 20);
    Atomics.wait(answered, 0, 0); // as when this process is stopped
    Atomics.wait(answered, 0, 1, 100);
    expect(await asked).toMatchObject({ pid: 1 });
  });

  it('is asked nothing by somebody who has given up already', async () => {
    let received = '';
    let closed: Promise<unknown> | undefined;
    const { path } = await listening((socket) => {
      closed = once(
        socket.on('data', (bytes) => (received += bytes)),
        'close',
      );
    });
    const asked = askDaemon(path, 'retire', 1_000, {}, { signal: AbortSignal.abort() });
    await expect(asked).rejects.toMatchObject({ code: 'DAEMON_FAILED' });
    await expect.poll(() => closed).toBeDefined();
    await closed;
    expect(received).toBe('');
  });

  it('keeps a connection for as long as it is told, and gives up when it is told', async () => {
    const news: string[] = [];
    const { path } = await listening((socket) =>
      serveControl(socket, async (request, _argument, closed) => {
        if (request === 'ready') await new Promise(() => {});
        void closed.then(() => news.push('closed'));
        return { pid: 1 };
      }),
    );
    let release = () => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    expect(await askDaemon(path, 'handover', 5_000, undefined, { until })).toMatchObject({ pid: 1 });
    expect(news).toEqual([]);
    release();
    while (news.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const patience = new AbortController();
    const waiting = askDaemon(path, 'ready', Number.POSITIVE_INFINITY, undefined, {
      signal: patience.signal,
    });
    patience.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'DAEMON_FAILED', why: 'it was not waited for' });
  });

  it('has answered `stop` when it is closed', async () => {
    let closed = false;
    const { path, close } = await listening((socket) =>
      serveControl(socket, async () => {
        setImmediate(() => {
          closed = true;
          close();
        });
        return { pid: 1 };
      }),
    );
    expect(await askDaemon(path, 'stop')).toMatchObject({ pid: 1 });
    expect(closed).toBe(true);
  });

  it('takes along what is to be confirmed, and may not confirm it', async () => {
    const { path } = await listening((socket) =>
      serveControl(socket, async (request, argument) =>
        request === 'confirm' && (argument as { spec: string }).spec === 'bøx\n' ? { pid: 7 } : undefined,
      ),
    );
    expect(await askDaemon(path, 'confirm', 5_000, { spec: 'bøx\n' })).toMatchObject({ pid: 7 });
    expect(await askDaemon(path, 'confirm', 5_000, { spec: 'other' })).toBeUndefined();
    expect(await askDaemon(path, 'confirm')).toBeUndefined();
  });

  it('hangs up on anything that is no request', async () => {
    const { path } = await listening((socket) => serveControl(socket, async () => ({})));
    for (const words of ['nonsense\n', '\n', 'confirm {\n', 'x'.repeat(20_000)]) {
      const socket = net.connect(path);
      socket.write(words);
      socket.resume();
      await new Promise((resolve) => socket.once('close', resolve));
    }
  });

  it('takes a request in pieces', async () => {
    const { path } = await listening((socket) => serveControl(socket, async () => 'yes'));
    const socket = net.connect(path);
    for (const piece of ['sta', 'tus', '\n']) {
      await new Promise((resolve) => socket.write(piece, resolve));
      await new Promise(setImmediate);
    }
    const [answer] = await new Promise<Buffer[]>((resolve) => socket.once('data', (data) => resolve([data])));
    expect(String(answer)).toBe('"yes"\n');
    socket.destroy();
  });
});

describe('askDaemon', () => {
  it('is undefined when nobody is there', async () => {
    const path = join(await tempDir(), 's');
    expect(await askDaemon(path, 'status')).toBeUndefined();
    await writeFile(path, '');
    expect(await askDaemon(path, 'status')).toBeUndefined();
  });

  it('is undefined when the daemon leaves before it answers', async () => {
    const { path } = await listening((socket) => socket.destroy());
    expect(await askDaemon(path, 'status')).toBeUndefined();
  });

  it('fails, in words for a person, when there is no answer or none that can be understood', async () => {
    const silent = await listening(() => {});
    await expect(askDaemon(silent.path, 'status', 50)).rejects.toMatchObject({
      code: 'DAEMON_FAILED',
      message: expect.stringContaining("it did not answer 'status'"),
    });
    const mad = await listening((socket) => socket.end('{"a"\n'));
    await expect(askDaemon(mad.path, 'status')).rejects.toMatchObject({ code: 'DAEMON_FAILED' });
  });
});
