import { once } from 'node:events';
import net from 'node:net';

/** Sends everything at once to a socket and resolves with all that it says until it closes. */
export async function talk(path: string, text: string): Promise<string> {
  const socket = net.connect({ path, allowHalfOpen: true });
  let said = '';
  socket.setEncoding('latin1').on('data', (bytes: string) => {
    said += bytes;
  });
  socket.end(text);
  await once(socket, 'end');
  return said;
}
