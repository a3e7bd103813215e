import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { ViewSocket } from '@gpg-bridge/core/io/view-socket';
import { decodeConfig } from '../launch/config.ts';
import { SocketServer } from './server.ts';

/** Set by the loader of launch.ts. */
declare const CONFIG: string;

/** Not process.stdout, whose end does not close it; a file or a terminal has to do with that all the same. */
function carrier(): { input: Readable; output: Writable } {
  try {
    const output = new Socket({ fd: 1, readable: false, writable: true });
    return { input: new ViewSocket({ fd: 0, readable: true, writable: false }), output };
  } catch {
    return { input: process.stdin, output: process.stdout };
  }
}

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

process.title = 'gpg-bridge socket server';
const log = (text: string) => process.stderr.write(`${text.replace(/[\x00-\x1f\x7f]+/g, ' ')}\n`);
process.stderr.on('error', () => {}); // nobody reads the log

const server = new SocketServer(decodeConfig(CONFIG), carrier(), log);
for (const [name, number] of Object.entries(SIGNALS)) {
  process.on(name, () => void server.stop(128 + number));
}
process.on('uncaughtException', (error) => {
  log(`the socket server failed: ${error.stack ?? error.message}`);
  void server.stop(1);
});
server.start().then((status) => process.exit(status));
