// An extension host in the remote: RequestProxy, whose calls go to the other host as lines of JSON. It looks after
// its way to that host as a window does; its arguments may say how often, and for how long it waits.
import net from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type RequestProxyInstance, startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import { Ownership } from 'gpg-bridge-request/src/ownership.ts';

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

let proxy: RequestProxyInstance | undefined;
let taken = 0;

/** Takes the gpg socket, as a window that owns it does. */
async function take(): Promise<void> {
  proxy = await startRequestProxy(
    { env: process.env },
    {
      commandExecutor: {
        connectAgent: () => call('connectAgent'),
        sendCommands: (id, block) => call('sendCommands', id, block),
        disconnectAgent: (id) => call('disconnectAgent', id),
      },
    },
  );
  console.log(taken++ === 0 ? 'listening' : 'listening again');
}

async function letGo(): Promise<void> {
  await proxy?.stop();
  console.log('let go');
}

const [pingEveryMs, pingDeadlineMs] = process.argv.slice(3).map(Number);
const ownership = new Ownership({
  path: join(process.env.GNUPGHOME!, 'S.gpg-bridge'),
  info: { version: '0', pid: process.pid, window: 'a test' },
  ping: () => call('ping'),
  take,
  letGo,
  onRole: () => {},
  ...(pingEveryMs && pingDeadlineMs ? { pingEveryMs, pingDeadlineMs } : {}),
});
void ownership.run();
process.stdin.on('end', () => void ownership.stop().then(() => process.exit())).resume();
