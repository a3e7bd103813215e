import { lstatSync, rmSync, type Stats } from 'node:fs';
import type net from 'node:net';
import { BridgeError } from '@gpg-bridge/core/errors';
import { connectLocal } from '@gpg-bridge/core/fs/pipe-file';
import { changeStamp } from '@gpg-bridge/core/fs/socket-identity';

/**
 * A Unix socket, or on Windows a pipe and its file, that only one process can hold; the kernel lets go of it when
 * that process dies.
 */
export interface Claim {
  /** Whether the name still leads to our socket. */
  holds(): boolean;
  release(): void;
}

/**
 * Claims a socket path, or returns undefined when a living process holds it. A socket that nobody
 * listens on any more is removed first. The name is made with `link`, which fails if it exists, so of two
 * processes that try at once only one succeeds.
 */
export async function claim(
  path: string,
  onConnection: (socket: net.Socket) => void = () => {},
): Promise<Claim | undefined> {
  return claimOver(path, onConnection, removeDeadSocket);
}

/** Removes a socket that nobody listens on any more. False if there is none, or a living process holds it. */
export async function removeIfDead(path: string): Promise<boolean> {
  if (!isClaim(statAt(path)) || (await stateOf(path)) !== 'dead') return false;
  await removeDeadSocket(path);
  return true;
}

/** Resolves when the process that holds a claim releases it or dies. */
export function untilReleased(path: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connectLocal(path);
    socket.on('error', () => {}); // it has gone already
    socket.on('close', () => resolve());
    socket.resume();
  });
}

/** Runs a change while this process alone holds the claim at a path. */
export async function whileClaimed<T>(path: string, change: () => T): Promise<T> {
  for (;;) {
    const held = await claim(path);
    if (!held) {
      await untilReleased(path);
      continue;
    }
    try {
      return change();
    } finally {
      held.release();
    }
  }
}

type RemoveDead = (path: string) => Promise<void>;

async function claimOver(
  path: string,
  onConnection: (socket: net.Socket) => void,
  removeDead: RemoveDead,
): Promise<Claim | undefined> {
  const connections = new Set<net.Socket>();
  // Most commands only look who holds a socket, and what makes random names takes long to load.
  const { BoundSocket } = await import('@gpg-bridge/core/fs/bound-socket');
  const bound = await BoundSocket.bind(path, {
    backlog: 511,
    allowHalfOpen: false,
    onConnection(socket) {
      connections.add(socket);
      socket.on('error', () => {}); // a caller that left
      socket.once('close', () => connections.delete(socket));
      onConnection(socket);
    },
    onError: () => {}, // a connection that could not be accepted: its caller tries again
  });
  const release = () => {
    // The name goes first: a name whose socket refuses connections means that its process was killed.
    bound.close();
    // `untilReleased` waits for the end of its connection.
    for (const socket of connections) socket.destroySoon();
  };
  try {
    while (!bound.placeIfFree()) {
      const state = await stateOf(path);
      if (state === 'held') {
        release();
        return undefined;
      }
      if (state === 'dead') await removeDead(path);
    }
    return { holds: () => bound.holdsPlace(), release };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Removes a dead socket. Of several processes that saw it dead, a slow one could remove what a fast one has
 * put in its place; so each claims a second socket first, and looks again once it has that.
 */
async function removeDeadSocket(path: string): Promise<void> {
  const turnPath = `${path}.x`;
  // A turn is held for a moment only, so one that is left behind belongs to a process that was killed.
  const turn = await claimOver(
    turnPath,
    () => {},
    async (left) => rmSync(left, { force: true }),
  );
  if (!turn) return untilReleased(turnPath);
  try {
    if ((await stateOf(path)) === 'dead') rmSync(path, { force: true });
  } finally {
    turn.release();
  }
}

/** Whether a process listens at a path (`held`), none does (`dead`), or the file changed meanwhile. */
async function stateOf(path: string): Promise<'held' | 'dead' | 'changed'> {
  const before = changeStamp(path);
  const there = statAt(path);
  if (there && !isClaim(there)) throw foreignFile(path);
  if (await answers(path)) return 'held';
  return before !== undefined && changeStamp(path) === before ? 'dead' : 'changed';
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectLocal(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // EAGAIN is a full backlog: a process listens, and is busy.
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EAGAIN'));
  });
}

/** Whether a file may stand for a claim. */
function isClaim(there: Stats | undefined): boolean {
  return (process.platform === 'win32' ? there?.isFile() : there?.isSocket()) ?? false;
}

/** What is at a path, if anything can be seen there. */
function statAt(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

function foreignFile(path: string): BridgeError {
  return new BridgeError('SOCKET_PATH_FOREIGN_FILE', {
    what: `can't make the socket ${path}`,
    why: 'something that is no socket is there',
    fix: 'Move it away if nothing needs it, then try again.',
  });
}
