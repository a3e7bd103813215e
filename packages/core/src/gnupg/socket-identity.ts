import { stat } from 'node:fs/promises';

/** What makes two paths the same socket, whatever they are called: bigints as decimal strings. */
export interface SocketIdentity {
  dev: string;
  ino: string;
}

/** The identity of what is at a path, links followed; undefined when nothing there can be seen. */
export async function identityOf(path: string): Promise<SocketIdentity | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return { dev: String(dev), ino: String(ino) };
  } catch {
    return undefined;
  }
}

/** Whether two identities are of one file. */
export function sameIdentity(a: SocketIdentity, b: SocketIdentity): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}
