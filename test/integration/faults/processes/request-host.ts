// An extension host in the remote: RequestProxy, whose calls go to the other host as lines of JSON.
import net from 'node:net';
import { createInterface } from 'node:readline';
import { startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

let carrier: net.Socket | undefined;
let lastId = 0;

/** One connection for all calls; those that are open when it ends are rejected, as VS Code does. */
function connected(): net.Socket {
  if (carrier) return carrier;
  const socket = net.connect(process.argv[2]!);
  const pending = new Map<number, Pending>();
  carrier = socket;
  socket.on('call', (id: number, call: Pending) => pending.set(id, call));
  socket.on('error', () => {});
  socket.once('close', () => {
    carrier = undefined;
    for (const { reject } of pending.values()) reject(new Error('the other extension host has gone'));
  });
  createInterface(socket)
    .on('error', () => {})
    .on('line', (line) => {
      const { id, value, error } = JSON.parse(line) as { id: number; value?: unknown; error?: string };
      const call = pending.get(id);
      pending.delete(id);
      if (error === undefined) call?.resolve(value);
      else call?.reject(new Error(error));
    });
  return socket;
}

function call<T>(method: string, ...args: string[]): Promise<T> {
  return new Promise<unknown>((resolve, reject) => {
    const id = ++lastId;
    const socket = connected();
    socket.emit('call', id, { resolve, reject });
    socket.write(`${JSON.stringify({ id, method, args })}\n`);
  }) as Promise<T>;
}

const proxy = await startRequestProxy(
  { env: process.env },
  {
    commandExecutor: {
      connectAgent: () => call('connectAgent'),
      sendCommands: (id, block) => call('sendCommands', id, block),
      disconnectAgent: (id) => call('disconnectAgent', id),
    },
  },
);
console.log('listening');
process.stdin.on('end', () => void proxy.stop().then(() => process.exit())).resume();
