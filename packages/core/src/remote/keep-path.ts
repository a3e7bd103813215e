import { BridgeError, type ErrorCode, toBridgeError } from '../errors.ts';
import { type SocketIdentity, sameIdentity } from '../fs/socket-identity.ts';
import { type LogCallback, noLog } from '../log.ts';
import type { SocketType } from '../socket-type.ts';
import { type ClaimOptions, claimPath, type PathLook } from './claim-path.ts';
import type { TargetOperations } from './operations.ts';
import { bridgeBehind, type HolderOf, heldByBridge } from './socket-holder.ts';

/** Which socket to keep where, and what to do with what is there. */
export interface KeepOptions {
  path: string;
  type: SocketType;
  log?: LogCallback | undefined;
  /** Takes the place of another forward at the start. */
  takeover?: boolean | undefined;
  /** The forward that is there is an earlier bridge of the same person: it is replaced without a warning. */
  succeeds?: boolean | undefined;
  /** The host agent's own sockets, which are never replaced. */
  hostSockets?: readonly SocketIdentity[] | undefined;
  /** Asked about another forward that is there. */
  holderOf?: HolderOf | undefined;
  /** Stops the target's own gpg-agent: `gpgconf --kill gpg-agent`. */
  stopOwnAgent(): Promise<void>;
  /** The socket had to be made anew, and maybe its directory, too. */
  onClaimedAgain?: (() => void) | undefined;
  backlog?: number | undefined;
  probeTimeoutMs?: number | undefined;
}

/** A socket that stays at its path until `close`. */
export interface KeptPath {
  path: string;
  type: SocketType;
  /** Why the path leads elsewhere, as far as that is known. */
  readonly problem: string | undefined;
  /** The same after a look whether another bridge is there that is known. */
  whyElsewhere(): Promise<string | undefined>;
  /** Whether the path leads to this socket. */
  isInPlace(): Promise<boolean>;
  /** Claims the path again as at the start, and tells what it did there; rejects if it must not be taken. */
  claimAgain(takeover: boolean, log: LogCallback): Promise<void>;
  /** Until `resume`, the path is left to whatever replaces the socket. */
  pause(): void;
  /** Claims the path again if it leads elsewhere by now. */
  resume(): void;
  /** Removes the socket file if it is still ours and stops listening; open connections go on. */
  close(): Promise<void>;
}

const BACKLOG = 4_096;
const PROBE_TIMEOUT_MS = 2_000;
/** What does not change by itself, and is looked at again when the path leads to something else. */
const LASTING: ReadonlySet<ErrorCode> = new Set([
  'SOCKET_HELD_BY_FORWARD',
  'SOCKET_PATH_FOREIGN_FILE',
  'SOCKET_IS_HOST_AGENT',
]);
const RETRY_MS = 2_000;

/** Bytes that fit into `sun_path` with its final NUL. */
const MAX_PATH_BYTES: Partial<Record<string, number>> = { darwin: 103, freebsd: 103, openbsd: 103 };
const MAX_PATH_BYTES_LINUX = 107;

/** Throws for a path that no socket can have; Node would cut it silently. */
export function checkPathLength(path: string, system: string): void {
  const limit = MAX_PATH_BYTES[system] ?? MAX_PATH_BYTES_LINUX;
  const length = Buffer.byteLength(path);
  if (length <= limit) return;
  throw new BridgeError('SOCKET_PATH_TOO_LONG', {
    what: `can't listen on ${path}`,
    why: `its path has ${length} bytes and a socket's may have ${limit}`,
    fix: 'Use a home or GNUPGHOME with a shorter path, or run `gpgconf --create-socketdir`.',
  });
}

/** Claims a path for a socket, and claims it again whenever something else is found there. */
export async function keepPath(
  operations: TargetOperations,
  options: KeepOptions,
  looked?: PathLook,
): Promise<KeptPath> {
  checkPathLength(options.path, operations.facts.system);
  const keeper = new PathKeeper(operations, options);
  await keeper.start(looked);
  return keeper;
}

class PathKeeper implements KeptPath {
  readonly #ended = new AbortController();
  readonly #log: LogCallback;
  #claimingAgain: Promise<void> | undefined;
  #replacedMeanwhile = false;
  #retry: NodeJS.Timeout | undefined;
  #lastProblem = '';
  /** What this socket was recognised by when it was bound. */
  #identity: SocketIdentity | undefined;
  #paused = false;

  constructor(
    private readonly operations: TargetOperations,
    private readonly options: KeepOptions,
  ) {
    this.#log = options.log ?? noLog;
  }

  get path(): string {
    return this.options.path;
  }

  get type(): SocketType {
    return this.options.type;
  }

  get problem(): string | undefined {
    return this.#lastProblem || undefined;
  }

  start(looked: PathLook | undefined): Promise<void> {
    const { takeover = false, succeeds } = this.options;
    return this.#claim(takeover, this.#log, { succeeds, looked, holderOf: this.options.holderOf });
  }

  async whyElsewhere(): Promise<string | undefined> {
    const { path, holderOf } = this.options;
    const own = this.#identity;
    const there = await this.operations.lstat(path);
    const bridge = there && (await bridgeBehind(this.operations, there.identity, holderOf));
    // One that was still starting when it took the path was not known then.
    if (bridge !== undefined && this.#identity === own)
      this.#lastProblem = heldByBridge(path, bridge).message;
    return this.problem;
  }

  async isInPlace(): Promise<boolean> {
    const there = await this.operations.lstat(this.options.path);
    return !!there && !!this.#identity && sameIdentity(there.identity, this.#identity);
  }

  async claimAgain(takeover: boolean, log: LogCallback): Promise<void> {
    clearTimeout(this.#retry);
    await this.#claimingAgain;
    if (await this.isInPlace()) {
      this.#lastProblem = '';
      return;
    }
    const claimed = this.#claim(takeover, log, { holderOf: this.options.holderOf });
    this.#claimingAgain = claimed.catch(() => {}).finally(() => this.#claimed());
    try {
      await claimed;
      this.#lastProblem = '';
    } catch (error) {
      this.#lastProblem = toBridgeError(error, `can't take ${this.options.path} back`).message;
      throw error;
    }
  }

  pause(): void {
    this.#paused = true;
    clearTimeout(this.#retry);
  }

  resume(): void {
    this.#paused = false;
    this.#onReplaced();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    clearTimeout(this.#retry);
    await this.#claimingAgain;
    await this.operations.release(this.options.type);
  }

  /** `succeeds` and what was seen before are for the first time alone. */
  #claim(
    takeover: boolean,
    log: LogCallback,
    {
      succeeds,
      looked,
      holderOf,
    }: Pick<KeepOptions, 'succeeds' | 'holderOf'> & { looked?: PathLook | undefined } = {},
  ): Promise<void> {
    const { path, type, hostSockets, backlog, probeTimeoutMs } = this.options;
    const claim: ClaimOptions = {
      path,
      type,
      hostSockets,
      holderOf,
      timeoutMs: probeTimeoutMs ?? PROBE_TIMEOUT_MS,
      signal: this.#ended.signal,
      log,
      takeover,
      succeeds,
      stopOwnAgent: () => this.options.stopOwnAgent(),
      backlog: backlog ?? BACKLOG,
      onReplaced: () => this.#onReplaced(),
      onBound: (identity) => {
        const isFirst = this.#identity === undefined;
        this.#identity = identity;
        if (!isFirst) this.options.onClaimedAgain?.();
      },
    };
    return claimPath(this.operations, claim, looked);
  }

  #onReplaced(): void {
    clearTimeout(this.#retry);
    if (this.#ended.signal.aborted || this.#paused) return;
    if (this.#claimingAgain) {
      this.#replacedMeanwhile = true;
      return;
    }
    this.#claimingAgain = this.#takeBack().finally(() => this.#claimed());
  }

  #claimed(): void {
    this.#claimingAgain = undefined;
    if (this.#replacedMeanwhile) this.#onReplaced();
  }

  async #takeBack(): Promise<void> {
    const { path } = this.options;
    this.#replacedMeanwhile = false;
    try {
      // What was told may be mended by now, and this socket must not be taken for another forward.
      if (await this.isInPlace()) {
        this.#lastProblem = '';
        return;
      }
      // Another forward was put there on purpose; two bridges that both insist would never end. Whose it is can be asked
      // when a person wants to know: a target may have this happen without end, and all other bridges would be busy.
      await this.#claim(false, this.#log);
      this.#lastProblem = '';
      this.#log(`something replaced or removed the socket ${path}: took its place back`, 'warn');
    } catch (error) {
      if (this.#ended.signal.aborted) return;
      const { message, code } = toBridgeError(error, `can't take ${path} back`);
      if (message !== this.#lastProblem)
        this.#log(`something replaced the socket ${path}: ${message}`, 'error');
      this.#lastProblem = message;
      if (LASTING.has(code)) return;
      this.#retry = setTimeout(() => this.#onReplaced(), RETRY_MS).unref();
    }
  }
}
