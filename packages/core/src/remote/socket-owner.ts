import { readFileSync } from 'node:fs';
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isTemporaryName } from './temporary-name.ts';

/** A process that has a listening socket open. */
export interface SocketOwner {
  pid: number;
  program: string;
}

/** Flag `__SO_ACCEPTCON` in /proc/net/unix: the socket listens. */
const LISTENING = 0x10000;

/**
 * The processes that listen on a Unix socket, newest socket first, as far as they can be seen: Linux
 * alone has /proc, and other users' processes keep their descriptors to themselves.
 */
export async function socketOwners(path: string, procDir = '/proc'): Promise<SocketOwner[]> {
  try {
    const sockets = await listeningSockets(path, procDir);
    if (sockets.size === 0) return [];
    const pids = (await readdir(procDir)).filter((name) => /^\d+$/.test(name));
    const owners: (SocketOwner & { socket: number })[] = [];
    for (const pid of pids) {
      const socket = await heldSocket(join(procDir, pid, 'fd'), sockets);
      if (socket === undefined) continue;
      const program = (await readFile(join(procDir, pid, 'comm'), 'utf8').catch(() => 'unknown')).trim();
      owners.push({ pid: Number(pid), program, socket });
    }
    return owners.sort((a, b) => b.socket - a.socket).map(({ pid, program }) => ({ pid, program }));
  } catch {
    return [];
  }
}

/** Inode numbers, in the kernel's own socket file system, of what listens under that name. */
async function listeningSockets(path: string, procDir: string): Promise<Set<number>> {
  // The kernel keeps the name given to bind(): a path with links in it, or the name before a rename.
  const names = new Set([path, join(await realpath(dirname(path)), basename(path))]);
  const directories = new Set([...names].map((name) => dirname(name)));
  const isOurName = (name: string) =>
    names.has(name) || (directories.has(dirname(name)) && isTemporaryName(basename(name), basename(path)));

  const sockets = new Set<number>();
  // Read in one go to the end: older Nodes' promise version stops at the first short read, as /proc makes them.
  for (const line of readFileSync(join(procDir, 'net/unix'), 'utf8').split('\n')) {
    // Num: RefCount Protocol Flags Type St Inode Path
    const fields = /^\S+ \S+ \S+ (\S+) \S+ \S+ +(\d+) (.+)$/.exec(line);
    if (!fields?.[1] || !fields[3] || !(Number.parseInt(fields[1], 16) & LISTENING)) continue;
    if (isOurName(fields[3])) sockets.add(Number(fields[2]));
  }
  return sockets;
}

async function heldSocket(fdDir: string, sockets: Set<number>): Promise<number | undefined> {
  for (const fd of await readdir(fdDir).catch(() => [])) {
    const link = await readlink(join(fdDir, fd)).catch(() => '');
    const socket = Number(/^socket:\[(\d+)\]$/.exec(link)?.[1]);
    if (sockets.has(socket)) return socket;
  }
  return undefined;
}
