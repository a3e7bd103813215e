import { dirname } from 'node:path/posix';
import { noAgentLine, unavailableGreeting } from '../assuan/unavailable-agent.ts';
import { BridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import { temporaryPath } from '../fs/temporary-name.ts';
import type { LogCallback } from '../log.ts';
import type { SocketType } from '../socket-type.ts';
import { type InspectOptions, inspectPath, type PathFinding } from './inspect-path.ts';
import { errorCode, type LastWords, type TargetOperations } from './operations.ts';
import { closeDirectory, type DirectoryFacts, directoryUnusable, makeDirectory } from './socket-directory.ts';
import { heldByBridge } from './socket-holder.ts';
import type { SocketOwner } from './socket-owner.ts';

/** What it takes to get a socket to its path. */
export interface ClaimOptions extends InspectOptions {
  log: LogCallback;
  /** Whether another forward is replaced. */
  takeover: boolean;
  /** The forward that is replaced is an earlier bridge of the same person: not worth a warning. */
  succeeds?: boolean | undefined;
  /** Stops the target's own gpg-agent: `gpgconf --kill gpg-agent`. */
  stopOwnAgent(): Promise<void>;
  backlog: number;
  /** The path leads to something else by now. */
  onReplaced(): void;
  /** What the socket can be recognised by, as far as it could be seen at its path. */
  onBound?(identity: SocketIdentity | undefined): void;
}

/** How often something else may slip in between looking and taking. */
const ATTEMPTS = 6;
/** How often a temporary name may be taken. */
const BIND_ATTEMPTS = 8;
const STOP_TIMEOUT_MS = 5_000;
/** More than an agent says to a client that asks nothing. */
const UNTIL_IT_CLOSES = { bytes: Buffer.alloc(0), count: 65_536, lines: 0 };

const WHY_ENDED = 'the bridge to the host has ended, or the host is out of reach';
/** gpg takes a close without a greeting for a missing agent, and starts one; ssh says what is wrong by itself. */
const LAST_WORDS: Partial<Record<SocketType, LastWords>> = {
  'gpg-agent': { greeting: unavailableGreeting(), refusal: noAgentLine(WHY_ENDED) },
};

type Found<K extends PathFinding['found']> = Extract<PathFinding, { found: K }>;
type Replaceable = Found<'dead' | 'hung' | 'forward'>;

/** What is at a path, and its directory, which is there by now if it can be. */
export interface PathLook {
  finding: PathFinding;
  directory: DirectoryFacts;
}

/** Looks at a path before it is claimed, in as few round trips as it can. */
export async function lookAtPath(
  operations: TargetOperations,
  { succeeds, ...options }: InspectOptions & Pick<ClaimOptions, 'succeeds'>,
): Promise<PathLook> {
  // Whose the socket of an earlier bridge is need not be asked.
  const holderOf = succeeds ? undefined : options.holderOf;
  const [finding, directory] = await Promise.all([
    inspectPath(operations, { ...options, holderOf }),
    makeDirectory(operations, dirname(options.path)),
  ]);
  return { finding, directory };
}

/**
 * Puts a listening socket at its path, after dealing with whatever is there: a dead or hung socket is
 * replaced, the target's own agent stopped, and the rest refused with a coded error and not touched.
 */
export async function claimPath(
  operations: TargetOperations,
  options: ClaimOptions,
  looked?: PathLook,
): Promise<void> {
  const directory = dirname(options.path);
  let known = looked;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      const look = known ?? (await lookAtPath(operations, options));
      known = undefined;
      refuseIfTaken(look.finding, options);
      await closeDirectory(operations, directory, look.directory, options.log);
      options.signal?.throwIfAborted();
      if (await take(operations, look.finding, options)) return;
    } catch (error) {
      options.signal?.throwIfAborted();
      const failure = directoryUnusable(directory, error);
      // Somebody is just removing the directory.
      if (errorCode(failure.cause) !== 'ENOENT') throw failure;
      if (failure.code !== 'SOCKET_DIR_UNUSABLE' || attempt === ATTEMPTS) throw failure;
    }
  }
  throw wontStop(options, 'new ones keep being started');
}

/** Throws for what must not be replaced. */
export function refuseIfTaken(finding: PathFinding, options: Pick<ClaimOptions, 'path' | 'takeover'>): void {
  const refusal = refuse(finding, options);
  if (refusal) throw refusal;
}

function refuse(
  finding: PathFinding,
  { path, takeover }: Pick<ClaimOptions, 'path' | 'takeover'>,
): BridgeError | undefined {
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
      if (finding.bridge !== undefined) return heldByBridge(path, finding.bridge);
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
async function take(
  operations: TargetOperations,
  finding: PathFinding,
  options: ClaimOptions,
): Promise<boolean> {
  switch (finding.found) {
    case 'own-agent':
      return replaceOwnAgent(operations, finding, options);
    case 'dead':
    case 'hung':
    case 'forward':
      if (!(await bind(operations, finding.identity, options))) return false;
      if (options.succeeds) options.log(`took ${options.path} over from the bridge before this one`, 'info');
      else options.log(REPLACED[finding.found](finding, options.path), LEVELS[finding.found]);
      return true;
    default:
      return bind(operations, undefined, options);
  }
}

/** Binds the socket at its path in place of what is expected there; false if something else is. */
async function bind(
  operations: TargetOperations,
  expected: SocketIdentity | undefined,
  { path, type, backlog, onReplaced, onBound }: ClaimOptions,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      // Looked at in the same breath: what is there now is the socket itself.
      const [, facts] = await Promise.all([
        operations.bind({
          type,
          path,
          temporaryPath: temporaryPath(path),
          expected,
          backlog,
          lastWords: LAST_WORDS[type],
          onReplaced,
        }),
        operations.lstat(path),
      ]);
      onBound?.(facts?.identity);
      return true;
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return false;
      if (errorCode(error) !== 'EADDRINUSE' || attempt === BIND_ATTEMPTS) throw error;
    }
  }
}

const LEVELS = { dead: 'info', hung: 'warn', forward: 'warn' } as const;

const REPLACED: Record<Replaceable['found'], (finding: Replaceable, path: string) => string> = {
  dead: (_finding, path) => `replaced the dead socket ${path}`,
  hung: (finding, path) => `replaced the socket ${path}: its listener${ownersOf(finding)} does not answer`,
  forward: (finding, path) =>
    `took ${path} over from ${bridgeOf(finding) ?? `another forward${ownersOf(finding)}`}`,
};

async function replaceOwnAgent(
  operations: TargetOperations,
  { identity, pid, owners }: Found<'own-agent'>,
  options: ClaimOptions,
): Promise<boolean> {
  const { path, log } = options;
  await stopAgent(operations, options);
  log(`stopped the target's own gpg-agent (pid ${pid}), which listened on ${path}`, 'warn');
  if (await bind(operations, undefined, options)) return true;
  // Still the same file: the agent was killed before it could remove it, or systemd holds the socket
  // and would start the agent anew for the next client.
  if (!(await bind(operations, identity, options))) return false;
  if (owners.some(({ program }) => program === 'systemd')) {
    log('run `systemctl --user restart gpg-agent.socket` after the bridge to have that agent back', 'info');
  }
  return true;
}

/**
 * Returns when the agent is gone. It removes its sockets by name as it ends, so its path must not be
 * taken earlier; a connection that it held closes after that.
 */
async function stopAgent(operations: TargetOperations, options: ClaimOptions): Promise<void> {
  const { path, signal } = options;
  const connection = operations.ask(path, { ...UNTIL_IT_CLOSES, timeoutMs: STOP_TIMEOUT_MS, signal }).then(
    ({ reason }) => reason !== 'timeout',
    () => true, // nobody to connect to
  );
  const stopped = options.stopOwnAgent().catch((cause) => {
    throw wontStop(options, cause instanceof Error ? cause.message : String(cause), cause);
  });
  await stopped;
  if (!(await connection)) throw wontStop(options, 'it is still there after it was told to');
}

function wontStop({ path }: ClaimOptions, why: string, cause?: unknown): BridgeError {
  return new BridgeError('OWN_AGENT_WONT_STOP', {
    what: `can't stop the gpg-agent on ${path}`,
    why,
    fix: 'End it with `gpgconf --kill gpg-agent` and start again.',
    cause,
  });
}

function bridgeOf(finding: Replaceable): string | undefined {
  return 'bridge' in finding ? finding.bridge : undefined;
}

function ownersOf(finding: Replaceable): string {
  return 'owners' in finding ? describeOwners(finding.owners) : '';
}

function describeOwners(owners: readonly SocketOwner[]): string {
  const [owner] = owners;
  return owner ? ` (${owner.program}, pid ${owner.pid})` : '';
}
