import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ViewSocket } from './view-socket.ts';

/** Two ends that are connected with each other. */
export interface SocketPair {
  near: ViewSocket;
  /** For another process: nothing is read from it here. */
  far: Socket;
}

/**
 * A pair of sockets whose near end hands out views. The pipes that Node makes for a child process can't,
 * and it has no socketpair() of its own, so the two meet in a directory that nobody else may enter.
 */
export async function socketPair(): Promise<SocketPair> {
  const directory = mkdtempSync(join(tmpdir(), 'gpg-bridge-'));
  const server = createServer({ pauseOnConnect: true });
  try {
    const path = join(directory, 's');
    server.listen(path);
    await once(server, 'listening');
    const near = ViewSocket.to({ path });
    const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [
      [Socket],
      [],
    ];
    return { near, far };
  } finally {
    server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
