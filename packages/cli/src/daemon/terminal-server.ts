import { renameSync, rmSync } from 'node:fs';
import net from 'node:net';
import type { TerminalGate } from '../engine/terminal-gate.ts';
import { ensureStateDirectory } from './make-state-dir.ts';
import { stateDirectory, terminalSocket, unusableState } from './state-dir.ts';

/**
 * Lets every daemon of this user hold the terminal that this process reads: for as long as it is connected, and it is
 * told when nothing is read. Returns how to end that.
 */
export async function serveTerminal(gate: TerminalGate): Promise<() => void> {
  const directory = stateDirectory();
  const path = terminalSocket(directory, process.pid);
  const server = net.createServer((daemon) => {
    daemon.on('error', () => {}); // 'close' follows
    daemon.once('close', () => void gate.release());
    daemon.resume();
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
