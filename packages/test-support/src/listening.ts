import net from 'node:net';

/** Returns when nothing listens on a Unix socket any more: an agent told to end takes a moment. */
export async function untilNobodyListens(path: string): Promise<void> {
  for (let listening = true; listening; ) {
    const socket = net.connect(path).resume();
    // Connected to a dying agent, this is closed or reset by its end.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      listening = error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT';
    });
    await new Promise((resolve) => socket.once('close', resolve));
  }
}
