import { readFileSync } from 'node:fs';

/** The PID in a file, if there is one. It proves nothing: only the control socket does. */
export function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'latin1').trim());
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}
