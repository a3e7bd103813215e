import { closeSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { openPlainFile, readPlainFile } from './plain-file.ts';

/**
 * Windows has no Unix sockets that Node can use: there a plain file in a private directory stands for one, and holds
 * the name of a pipe. All pipes of a machine share one folder, so the name is random and made anew each time: nobody
 * can have taken it before.
 */
const PIPE_NAME = /^\\\\\.\\pipe\\gpg-bridge-[0-9a-f]{32}$/;

/** Makes the file that stands for a socket; fails if there is one of this name. */
export function writePipeFile(path: string, pipe: string): void {
  const file = openPlainFile(path, 'create');
  try {
    writeFileSync(file, `${pipe}\n`);
  } finally {
    closeSync(file);
  }
}

/** The pipe that a file stands for; undefined if there is no file, or something else in it. */
export function readPipeName(path: string): string | undefined {
  try {
    const name = readPlainFile(path).trim();
    return PIPE_NAME.test(name) ? name : undefined;
  } catch {
    return undefined;
  }
}

/** `net.connect` to a Unix socket, or to the pipe that the file there stands for. */
export function connectLocal(path: string, platform: NodeJS.Platform = process.platform): net.Socket {
  if (platform !== 'win32') return net.connect(path);
  const pipe = readPipeName(path);
  if (pipe !== undefined) return net.connect(pipe);
  const missing: NodeJS.ErrnoException = new Error(`connect ENOENT ${path}`);
  missing.code = 'ENOENT';
  const socket = new net.Socket();
  // After the caller has had time to listen, as with any other connection that fails.
  setImmediate(() => socket.destroy(missing));
  return socket;
}
