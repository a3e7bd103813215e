import { dirname } from 'node:path';
import { BridgeError } from '../errors.ts';
import type { LogCallback } from '../log.ts';
import { type BindOptions, BoundSocket } from './bound-socket.ts';
import { connectTo } from './knock.ts';
import { type Finding, type ProbeOptions, probe } from './probe.ts';
import { directoryUnusable, ensureSocketDirectory } from './socket-directory.ts';
import type { SocketOwner } from './socket-owner.ts';

/** What it takes to get a socket to its place. */
export interface PlaceOptions extends ProbeOptions, BindOptions {
  log: LogCallback;
  /** Whether another forward is replaced. */
  takeover: boolean;
  /** Stops the target's own gpg-agent: `gpgconf --kill gpg-agent`. */
  stopOwnAgent(): Promise<void>;
}

/** How often something else may slip in between looking and taking. */
const ATTEMPTS = 6;
const STOP_TIMEOUT_MS = 5_000;

type Found<K extends Finding['found']> = Extract<Finding, { found: K }>;
type Replaceable = Found<'dead' | 'hung' | 'forward'>;

/**
 * Puts a listening socket at its path, after dealing with whatever is there: a dead or hung socket is
 * replaced, the target's own agent stopped, and the rest refused with a coded error and not touched.
 */
export async function takePlace(options: PlaceOptions): Promise<BoundSocket> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    let bound: BoundSocket | undefined;
    try {
      const finding = await probe(options);
      const refusal = refuse(finding, options);
      if (refusal) throw refusal;
      await ensureSocketDirectory(dirname(options.path), options.log);
      options.signal?.throwIfAborted();
      bound = await BoundSocket.bind(options.path, options);
      if (await take(finding, bound, options)) return bound;
    } catch (error) {
      bound?.close();
      options.signal?.throwIfAborted();
      const failure = directoryUnusable(dirname(options.path), error);
      // Somebody is just removing the directory.
      if ((failure.cause as NodeJS.ErrnoException | undefined)?.code !== 'ENOENT') throw failure;
      if (failure.code !== 'SOCKET_DIR_UNUSABLE' || attempt === ATTEMPTS) throw failure;
      continue;
    }
    bound.close();
  }
  throw wontStop(options, 'new ones keep being started');
}

function refuse(finding: Finding, { path, takeover }: PlaceOptions): BridgeError | undefined {
  const what = `can't listen on ${path}`;
  switch (finding.found) {
    case 'host-agent':
      return new BridgeError('SOCKET_IS_HOST_AGENT', {
        what,
        why: 'it leads to the agent of the host itself, which a bridge would cut off from its own keys',
        fix: 'No bridge is needed here: programs already talk to that agent. To test one, set another GNUPGHOME.',
      });
    case 'foreign-file':
      return new BridgeError('SOCKET_PATH_FOREIGN_FILE', {
        what,
        why: `${finding.description} is there`,
        fix: 'Move it away if nothing needs it, then start again.',
      });
    case 'forward': {
      if (takeover) return undefined;
      const holder = finding.isAgent ? 'another forward' : 'a program that does not speak as an agent does';
      const works = finding.isAgent ? ', so signing may already work here' : '';
      return new BridgeError('SOCKET_HELD_BY_FORWARD', {
        what,
        why: `${holder} listens there${describeOwners(finding.owners)}${works}`,
        fix: 'Try to sign; if that fails, stop that program, or start with --takeover to take its place.',
      });
    }
    default:
      return undefined;
  }
}

/** False if what was found is no longer there, and the path has to be looked at again. */
async function take(finding: Finding, bound: BoundSocket, options: PlaceOptions): Promise<boolean> {
  switch (finding.found) {
    case 'own-agent':
      return replaceOwnAgent(finding, bound, options);
    case 'dead':
    case 'hung':
    case 'forward':
      if (!bound.placeOver(finding.identity)) return false;
      options.log(REPLACED[finding.found](finding, options.path), finding.found === 'dead' ? 'info' : 'warn');
      return true;
    default:
      return bound.placeIfFree();
  }
}

const REPLACED: Record<Replaceable['found'], (finding: Replaceable, path: string) => string> = {
  dead: (_finding, path) => `replaced the dead socket ${path}`,
  hung: (finding, path) => `replaced the socket ${path}: its listener${ownersOf(finding)} does not answer`,
  forward: (finding, path) => `took ${path} over from another forward${ownersOf(finding)}`,
};

async function replaceOwnAgent(
  { identity, pid, owners }: Found<'own-agent'>,
  bound: BoundSocket,
  options: PlaceOptions,
): Promise<boolean> {
  const { path, log } = options;
  await stopAgent(options);
  log(`stopped the target's own gpg-agent (pid ${pid}), which listened on ${path}`, 'info');
  if (bound.placeIfFree()) return true;
  // Still the same file: the agent was killed before it could remove it, or systemd holds the socket
  // and would start the agent anew for whoever connects.
  if (!bound.placeOver(identity)) return false;
  if (owners.some(({ program }) => program === 'systemd')) {
    log('run `systemctl --user restart gpg-agent.socket` after the bridge to have that agent back', 'info');
  }
  return true;
}

/**
 * Returns when the agent is gone. It removes its sockets by name as it ends, so its place must not be
 * taken earlier; a connection that it held closes after that.
 */
async function stopAgent(options: PlaceOptions): Promise<void> {
  const witness = await connectTo(options.path, options).catch(() => undefined);
  const gone = new Promise<void>((resolve) =>
    witness ? witness.resume().once('close', resolve) : resolve(),
  );
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(wontStop(options, 'it is still there after it was told to')),
      STOP_TIMEOUT_MS,
    );
  });
  try {
    const stopped = options.stopOwnAgent().catch((cause) => {
      throw wontStop(options, cause instanceof Error ? cause.message : String(cause), cause);
    });
    await Promise.race([Promise.all([stopped, gone]), late]);
  } finally {
    clearTimeout(timer);
    witness?.destroy();
  }
}

function wontStop({ path }: PlaceOptions, why: string, cause?: unknown): BridgeError {
  return new BridgeError('OWN_AGENT_WONT_STOP', {
    what: `can't stop the gpg-agent on ${path}`,
    why,
    fix: 'End it with `gpgconf --kill gpg-agent` and start again.',
    cause,
  });
}

function ownersOf(finding: Replaceable): string {
  return 'owners' in finding ? describeOwners(finding.owners) : '';
}

function describeOwners(owners: readonly SocketOwner[]): string {
  const [owner] = owners;
  return owner ? ` (${owner.program}, pid ${owner.pid})` : '';
}
