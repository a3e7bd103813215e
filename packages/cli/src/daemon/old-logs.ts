import { existsSync, lstatSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { logPaths } from './log-reader.ts';

/** How long the log of a bridge that has ended is kept. */
const KEPT_MS = 30 * 24 * 60 * 60 * 1_000;

/** Removes the logs that nobody has written to for a month, except those of bridges that run. */
export function removeOldLogs(logs: string, controls: string, now = Date.now()): void {
  for (const path of logPaths(logs)) {
    try {
      const control = join(controls, basename(path).replace(/\.log(?:\.1)?$/, '.sock'));
      if (now - lstatSync(path).mtimeMs > KEPT_MS && !existsSync(control)) rmSync(path);
    } catch {
      // Another daemon was faster.
    }
  }
}
