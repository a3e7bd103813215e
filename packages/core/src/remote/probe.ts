import { type BigIntStats, lstatSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identityOf, ofThisKernel, type SocketIdentity, sameIdentity } from '../fs/socket-identity.ts';
import type { SocketType } from '../socket-type.ts';
import { type Answer, askWhoYouAre, type KnockOptions, knock } from './knock.ts';
import { type SocketOwner, socketOwners } from './socket-owner.ts';

/** What is at the path of a socket, and who is behind it as far as that can be seen. */
export type Finding =
  | { found: 'nothing' }
  /** A socket file that nobody listens on. */
  | { found: 'dead'; identity: SocketIdentity }
  /** The target's own gpg-agent. */
  | { found: 'own-agent'; identity: SocketIdentity; owners: SocketOwner[]; pid: number }
  /** Something that leads to keys elsewhere (another bridge, `ssh -R`, an editor), or speaks otherwise. */
  | { found: 'forward'; identity: SocketIdentity; owners: SocketOwner[]; isAgent: boolean }
  /** A listener that says nothing. */
  | { found: 'hung'; identity: SocketIdentity; owners: SocketOwner[] }
  /** Anything that is not a socket, or none of ours to deal with. */
  | { found: 'foreign-file'; description: string }
  /** The agent of the host itself. */
  | { found: 'host-agent' };

/** What to look at, and how long. */
export interface ProbeOptions extends KnockOptions {
  path: string;
  kind: SocketType;
  /** The host agent's own sockets. */
  hostSockets?: readonly SocketIdentity[] | undefined;
}

/** gpg-agent's names in its socket directory: if one of them is the host's, the directory is. */
const AGENT_NAMES = ['S.gpg-agent', 'S.gpg-agent.extra'];

/** A socket bound this short a time ago may belong to a program that has yet to call listen(). */
const FRESH_MS = 1_000;
const FRESH_RETRY_MS = 50;

/** What a failed connect() says about the socket; any other error is silence. */
const CONNECT_ERRORS: Partial<Record<string, (identity: SocketIdentity) => Finding>> = {
  ECONNREFUSED: (identity) => ({ found: 'dead', identity }),
  ENOENT: () => ({ found: 'nothing' }),
  EACCES: () => ({ found: 'foreign-file', description: 'a socket that you may not use' }),
  EPROTOTYPE: () => ({ found: 'foreign-file', description: 'a socket of another type' }),
};

/** Finds out what is at a path. The host's own agent is recognised before anything is asked of it. */
export async function probe(options: ProbeOptions): Promise<Finding> {
  for (;;) {
    options.signal?.throwIfAborted();
    if (await leadsToHost(options)) return { found: 'host-agent' };
    const facts = lstatSync(options.path, { bigint: true, throwIfNoEntry: false });
    if (!facts) return { found: 'nothing' };
    if (!facts.isSocket()) return { found: 'foreign-file', description: describeFile(options.path, facts) };

    const finding = await look({ dev: String(facts.dev), ino: String(facts.ino) }, options);
    const age = Date.now() - Number(facts.ctimeMs);
    if (finding.found !== 'dead' || age < 0 || age > FRESH_MS) return finding;
    await delay(FRESH_RETRY_MS);
  }
}

async function leadsToHost({ path, kind, hostSockets: told = [] }: ProbeOptions): Promise<boolean> {
  const hostSockets = await ofThisKernel(told);
  if (hostSockets.length === 0) return false;
  const siblings = kind === 'gpg-agent' ? AGENT_NAMES.map((name) => join(dirname(path), name)) : [];
  for (const name of [path, ...siblings]) {
    const identity = await identityOf(name);
    if (identity && hostSockets.some((socket) => sameIdentity(socket, identity))) return true;
  }
  return false;
}

/** A symbolic link counts as a file too: it is somebody's own arrangement, whatever it leads to. */
function describeFile(path: string, facts: BigIntStats): string {
  if (facts.isSymbolicLink()) return `a symbolic link to ${readlinkSync(path)}`;
  if (facts.isDirectory()) return 'a directory';
  return facts.isFile() ? 'a regular file' : 'a special file';
}

async function look(identity: SocketIdentity, options: ProbeOptions): Promise<Finding> {
  const { path, kind, signal } = options;
  let answer: Answer;
  try {
    answer = await knock(path, kind, options);
  } catch (error) {
    signal?.throwIfAborted();
    const finding = CONNECT_ERRORS[(error as NodeJS.ErrnoException).code ?? ''];
    if (finding) return finding(identity);
    answer = 'silence';
  }
  const owners = await socketOwners(path);
  if (answer === 'silence') return { found: 'hung', identity, owners };
  if (answer === 'unrestricted') {
    const pid = await ownAgentPid(identity, owners, options);
    if (pid !== undefined) return { found: 'own-agent', identity, owners, pid };
  }
  return { found: 'forward', identity, owners, isAgent: answer !== 'nonsense' };
}

/**
 * The process id of an unrestricted agent, if it is the one that listens at the path. A relay to the
 * main socket of an agent elsewhere answers just the same, and stopping that one would end the agent
 * behind it: so its name for its socket has to be this socket, and its process one that holds it.
 */
async function ownAgentPid(
  identity: SocketIdentity,
  owners: readonly SocketOwner[],
  options: ProbeOptions,
): Promise<number | undefined> {
  try {
    const { pid, socketName } = await askWhoYouAre(options.path, options);
    const named = await identityOf(socketName);
    const isHere = named !== undefined && sameIdentity(named, identity);
    const isHolder = owners.length === 0 || owners.some((owner) => owner.pid === pid);
    return isHere && isHolder ? pid : undefined;
  } catch {
    options.signal?.throwIfAborted();
    return undefined;
  }
}
