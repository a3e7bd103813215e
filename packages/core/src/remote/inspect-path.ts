import { dirname, join } from 'node:path/posix';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '../errors.ts';
import { ofKernel, type SocketIdentity, sameIdentity } from '../fs/socket-identity.ts';
import type { SocketType } from '../socket-type.ts';
import { printable } from '../text/escape.ts';
import { type IdentifyOptions, identifyListener, type ListenerIdentity } from './identify-listener.ts';
import { errorCode, type FileFacts, type TargetOperations } from './operations.ts';
import { bridgeBehind, type HolderOf } from './socket-holder.ts';
import { type SocketOwner, socketOwners } from './socket-owner.ts';

/** What is at the path of a socket, and who is behind it as far as that can be seen. */
export type PathFinding =
  | { found: 'nothing' }
  /** A socket file that nobody listens on. */
  | { found: 'dead'; identity: SocketIdentity }
  /** The target's own gpg-agent. */
  | { found: 'own-agent'; identity: SocketIdentity; owners: SocketOwner[]; pid: number }
  /** Something that leads to keys elsewhere (a bridge that may be known, `ssh -R`, an editor), or speaks otherwise. */
  | { found: 'forward'; identity: SocketIdentity; owners: SocketOwner[]; isAgent: boolean; bridge?: string }
  /** A listener that says nothing. */
  | { found: 'hung'; identity: SocketIdentity; owners: SocketOwner[] }
  /** Anything that is not a socket, or none of ours to deal with. */
  | { found: 'foreign-file'; description: string }
  /** The agent of the host itself. */
  | { found: 'host-agent' };

/** What to look at, and how long. */
export interface InspectOptions extends IdentifyOptions {
  path: string;
  type: SocketType;
  /** The host agent's own sockets. */
  hostSockets?: readonly SocketIdentity[] | undefined;
  /** Asked about a forward. */
  holderOf?: HolderOf | undefined;
}

/** gpg-agent's names in its socket directory: if one of them is the host's, the directory is. */
const AGENT_NAMES = ['S.gpg-agent', 'S.gpg-agent.extra'];

/** A socket bound this short a time ago may belong to a program that has yet to call listen(). */
const FRESH_SECONDS = 1;
/** Before the next look; a target may say that something else is there each time. */
const RETRY_MS = 50;

/** What a failed connect() says about the socket; after any other error nobody answered. */
const CONNECT_ERRORS: Partial<Record<string, (identity: SocketIdentity) => PathFinding>> = {
  ECONNREFUSED: (identity) => ({ found: 'dead', identity }),
  ENOENT: () => ({ found: 'nothing' }),
  EACCES: () => ({ found: 'foreign-file', description: 'a socket that you may not use' }),
  EPROTOTYPE: () => ({ found: 'foreign-file', description: 'a socket of another type' }),
};

/** Finds out what is at a path. The host's own agent is recognised before anything is asked of it. */
export async function inspectPath(
  operations: TargetOperations,
  options: InspectOptions,
): Promise<PathFinding> {
  for (let looks = 1; ; looks++) {
    options.signal?.throwIfAborted();
    const [isHost, facts] = await Promise.all([
      leadsToHost(operations, options),
      operations.lstat(options.path),
    ]);
    if (isHost) return { found: 'host-agent' };
    if (!facts) return { found: 'nothing' };
    if (facts.kind !== 'socket') {
      return { found: 'foreign-file', description: await describeFile(operations, options.path, facts) };
    }
    const finding = await inspectListener(operations, facts.identity, options);
    // A bridge that has just lost its host removes its socket, and then answers the clients it still had: once that
    // costs no pause.
    if (finding.found === 'forward') {
      if (await isStillThere(operations, options.path, facts))
        return withBridge(operations, finding, options);
      if (looks === 1) continue;
    } else {
      const isFresh = facts.ageSeconds >= 0 && facts.ageSeconds <= FRESH_SECONDS;
      if (finding.found !== 'dead' || !isFresh) return finding;
    }
    await delay(RETRY_MS);
  }
}

async function isStillThere(
  operations: TargetOperations,
  path: string,
  { identity }: FileFacts,
): Promise<boolean> {
  const now = await operations.lstat(path);
  return now !== undefined && sameIdentity(now.identity, identity);
}

async function leadsToHost(
  operations: TargetOperations,
  { path, type, hostSockets = [] }: InspectOptions,
): Promise<boolean> {
  const here = ofKernel(operations.facts.boot, hostSockets);
  if (here.length === 0) return false;
  const siblings = type === 'gpg-agent' ? AGENT_NAMES.map((name) => join(dirname(path), name)) : [];
  const found = await Promise.all([path, ...siblings].map((name) => operations.stat(name)));
  return found.some((facts) => facts && here.some((socket) => sameIdentity(socket, facts.identity)));
}

/** A symbolic link counts as a file too: it is somebody's own arrangement, whatever it leads to. */
async function describeFile(
  operations: TargetOperations,
  path: string,
  { kind }: FileFacts,
): Promise<string> {
  if (kind === 'link') return `a symbolic link to ${printable(await operations.readlink(path))}`;
  if (kind === 'directory') return 'a directory';
  return kind === 'file' ? 'a regular file' : 'a special file';
}

async function inspectListener(
  operations: TargetOperations,
  identity: SocketIdentity,
  options: InspectOptions,
): Promise<PathFinding> {
  const { path, type, signal } = options;
  let listener: ListenerIdentity;
  try {
    listener = await identifyListener(operations, path, type, options);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof BridgeError) throw error; // of the way to the target
    const finding = CONNECT_ERRORS[errorCode(error)];
    if (finding) return finding(identity);
    listener = { answers: 'nothing' };
  }
  const owners = await socketOwners(operations, path);
  if (listener.answers === 'nothing') return { found: 'hung', identity, owners };
  if (listener.answers === 'unrestricted' && (await isAgentHere(operations, identity, owners, listener))) {
    return { found: 'own-agent', identity, owners, pid: listener.pid };
  }
  return { found: 'forward', identity, owners, isAgent: listener.answers !== 'nonsense' };
}

/** A forward with the bridge whose it is, if that is known. */
async function withBridge(
  operations: TargetOperations,
  forward: Extract<PathFinding, { found: 'forward' }>,
  { holderOf }: InspectOptions,
): Promise<PathFinding> {
  const bridge = await bridgeBehind(operations, forward.identity, holderOf);
  return bridge === undefined ? forward : { ...forward, bridge };
}

/**
 * Whether an unrestricted agent is the one that listens at the path. A relay to the main socket of an agent
 * elsewhere answers just the same, and stopping that one would end the agent behind it: so its name for its
 * socket has to be this socket, and its process one that holds it. (gpg-agent hides its descriptors from
 * processes that may not trace it; then nobody is seen to hold the socket.)
 */
async function isAgentHere(
  operations: TargetOperations,
  identity: SocketIdentity,
  owners: readonly SocketOwner[],
  { pid, socketName }: Extract<ListenerIdentity, { answers: 'unrestricted' }>,
): Promise<boolean> {
  if (!Number.isInteger(pid) || pid <= 0 || !socketName.startsWith('/')) return false;
  const named = await operations.stat(socketName);
  const isHere = named !== undefined && sameIdentity(named.identity, identity);
  return isHere && (owners.length === 0 || owners.some((owner) => owner.pid === pid));
}
