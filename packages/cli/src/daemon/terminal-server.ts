import { renameSync, rmSync } from 'node:fs';
import net from 'node:net';
import type { TerminalGate } from '../engine/terminal-gate.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { stateDirectory, terminalSocket, unusableState } from './state-dir.ts';

/** What a daemon sends when the terminal may be read again. A connection that ends without it releases nothing. */
export const RELEASED = 'released\n';

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
    void gate.hold().then(() => daemon.write('held\n'));
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
