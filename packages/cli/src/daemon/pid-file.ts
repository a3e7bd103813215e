import { closeSync, rmSync, writeFileSync } from 'node:fs';
import { openPlainFile, readPlainFile } from '@gpg-bridge/core/fs/plain-file';

/** The PID in a file, if there is one. It proves nothing: only the control socket does. */
export function readPid(path: string): number | undefined {
  try {
    const pid = Number(readPlainFile(path).trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Writes this process's PID into a new file; whatever had the name goes, and a link is not followed. */
export function writePid(path: string): void {
  rmSync(path, { force: true });
  const file = openPlainFile(path, 'create');
  try {
    writeFileSync(file, `${process.pid}\n`);
  } catch (error) {
    rmSync(path, { force: true }); // an empty one, on a full disk
    throw error;
  } finally {
    closeSync(file);
  }
}
