import { renameSync, rmSync } from 'node:fs';
import net from 'node:net';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import type { TerminalGate } from '../engine/terminal-gate.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { promptSockets, stateDirectory, terminalSocket, unusableState } from './state-dir.ts';

/** What a daemon sends when the terminal may be read again. A connection that ends without it releases nothing. */
export const RELEASED = 'released\n';
/** What either end sends when it holds. */
export const HELD = 'held\n';
/** A prompt that takes longer is told of: the command does not begin before. */
const TELL_AFTER_MS = 1_000;

/**
 * Lets every daemon of this user hold the terminal that this process reads: from when it connects until it says that
 * it releases it. Returns how to end that.
 */
export async function serveTerminal(gate: TerminalGate): Promise<() => void> {
  const directory = stateDirectory();
  const path = terminalSocket(directory, process.pid);
  const server = net.createServer((daemon) => {
    daemon.on('error', () => {}); // 'close' follows
    let said = '';
    daemon.setEncoding('latin1').on('data', (text: string) => {
      said = (said + text).slice(0, RELEASED.length);
    });
    // A daemon that was killed leaves the prompt behind, and the person may still be typing.
    daemon.once('close', () => void (said === RELEASED ? gate.release() : gate.lose()));
    void gate.hold().then(() => daemon.write(HELD));
  });
  try {
    ensureStateDirectory(directory);
    for (const stale of [path, `${path}.new`]) rmSync(stale, { force: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(`${path}.new`, resolve);
    });
    // A daemon removes a socket at which nobody listens, and must not find this one before.
    renameSync(`${path}.new`, path);
  } catch (error) {
    server.close();
    throw unusableState(directory, error as Error);
  }
  server.unref();
  const remove = () => rmSync(path, { force: true });
  process.once('exit', remove);
  return () => {
    process.off('exit', remove);
    remove();
    server.close();
  };
}

/**
 * Resolves when no prompt can be up that was there before this process served its terminal: what is typed is for that
 * one. False: a daemon has gone without telling when that is.
 */
export async function promptsAreOver(tell: () => void): Promise<boolean> {
  const sockets = promptSockets(stateDirectory());
  if (sockets.length === 0) return true;
  const timer = setTimeout(tell, TELL_AFTER_MS);
  const over = await Promise.all(sockets.map(promptIsOver));
  clearTimeout(timer);
  return over.every(Boolean);
}

function promptIsOver(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const daemon = connectLocal(path);
    let said = '';
    daemon.setEncoding('latin1').on('data', (text: string) => {
      said += text;
    });
    daemon.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED') rmSync(path, { force: true }); // its daemon was killed
    });
    daemon.once('close', () => resolve(said === '' || said.endsWith(RELEASED)));
  });
}
