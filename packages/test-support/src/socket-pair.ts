import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { asViewSocket, ViewSocket } from '@gpg-bridge/core/io/view-socket';
import { onTestFinished } from 'vitest';
import { tempDir } from './temp.ts';

/**
 * Two ends of one real Unix connection, of the product's own kind; both are gone when the test ends. The first
 * one connects, and can be one that ends when the other does, as a connection to an agent.
 */
export async function socketPair({ allowHalfOpen = true } = {}): Promise<[ViewSocket, Socket]> {
  const path = join(await tempDir(), 's');
  const server = createServer({ allowHalfOpen: true }).listen(path);
  await once(server, 'listening');
  const near = ViewSocket.to({ path, allowHalfOpen });
  const far = await new Promise<Socket>((resolve) => {
    server.once('connection', (accepted) => resolve(asViewSocket(accepted)));
  });
  server.close();
  for (const socket of [near, far]) onTestFinished(() => void socket.destroy());
  return [near, far];
}

/** Reads exactly `length` bytes; between two calls the socket is not read. */
export function readExactly(socket: Socket, length: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let missing = length;
    const stop = (): void => {
      socket.pause().off('data', onData).off('end', onEnd).off('close', onEnd);
    };
    const onEnd = (): void => {
      stop();
      reject(new Error(`the end came ${missing} bytes before ${length} were there`));
    };
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk.subarray(0, missing));
      missing -= chunk.length;
      if (missing > 0) return;
      stop();
      if (missing < 0) socket.unshift(chunk.subarray(missing));
      resolve(Buffer.concat(chunks));
    };
    socket.on('data', onData).on('end', onEnd).on('close', onEnd).resume();
    if (socket.readableEnded || socket.destroyed) onEnd();
  });
}

/** Everything that comes until the other side ends. */
export async function readToEnd(socket: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk);
  return Buffer.concat(chunks);
}
