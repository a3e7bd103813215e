import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { dirname } from 'node:path';
import { BridgeError, toBridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import { type LogCallback, noLog } from '../log.ts';
import type { SocketType } from '../socket-type.ts';
import type { BoundSocket } from './bound-socket.ts';
import { PlaceWatch } from './place-watch.ts';
import { takePlace } from './take-place.ts';

/** Where to listen in a target, and what to do with what is there. */
export interface ListenOptions {
  path: string;
  kind: SocketType;
  /** Called for every client; the socket is the callee's from then on, its errors too. */
  onConnection(socket: Socket): void;
  log?: LogCallback | undefined;
  /** Takes the place of another forward at the start. */
  takeover?: boolean | undefined;
  /** The host agent's own sockets, which are never replaced. */
  hostSockets?: readonly SocketIdentity[] | undefined;
  /** Stops the target's own gpg-agent: `gpgconf --kill gpg-agent`. */
  stopOwnAgent(): Promise<void>;
  backlog?: number | undefined;
  probeTimeoutMs?: number | undefined;
  /** As for net.Server: whether a client that has ended its side still gets answers. */
  allowHalfOpen?: boolean | undefined;
}

/** A socket that is listened on until `close`. */
export interface TargetListener {
  path: string;
  /** Removes the socket file if it is still ours and stops listening; open connections go on. */
  close(): Promise<void>;
}

/** Bytes that fit into `sun_path` with its final NUL. */
const MAX_PATH_BYTES: Partial<Record<NodeJS.Platform, number>> = { darwin: 103, freebsd: 103, openbsd: 103 };
const MAX_PATH_BYTES_LINUX = 107;

/**
 * Listens on a Unix socket in a target: directory 0700, socket 0600, whatever is there dealt with by the
 * rules of `takePlace`; and takes the place back when something replaces the socket later.
 */
export async function listenInTarget(options: ListenOptions): Promise<TargetListener> {
  checkLength(options.path);
  const listener = new Listener(options);
  await listener.start();
  return { path: options.path, close: () => listener.close() };
}

function checkLength(path: string): void {
  const limit = MAX_PATH_BYTES[process.platform] ?? MAX_PATH_BYTES_LINUX;
  const length = Buffer.byteLength(path);
  if (length <= limit) return;
  throw new BridgeError('SOCKET_PATH_TOO_LONG', {
    what: `can't listen on ${path}`,
    why: `its path has ${length} bytes and a socket's may have ${limit}`,
    fix: 'Use a home or GNUPGHOME with a shorter path, or run `gpgconf --create-socketdir`.',
  });
}

class Listener {
  readonly #ended = new AbortController();
  readonly #log: LogCallback;
  #bound: BoundSocket | undefined;
  #watch: PlaceWatch | undefined;
  #takingBack: Promise<void> | undefined;
  #changedMeanwhile = false;
  #lastProblem = '';

  constructor(private readonly options: ListenOptions) {
    this.#log = options.log ?? noLog;
  }

  async start(): Promise<void> {
    this.#bound = await this.#take(this.options.takeover ?? false);
    this.#watch = new PlaceWatch(this.options.path, this.#check, this.#log);
    this.#check(); // for what happened before there was a watch
  }

  async close(): Promise<void> {
    this.#ended.abort();
    this.#watch?.close();
    await this.#takingBack;
    this.#bound?.close();
    this.#bound = undefined;
  }

  #take(takeover: boolean): Promise<BoundSocket> {
    const { options } = this;
    return takePlace({
      path: options.path,
      kind: options.kind,
      hostSockets: options.hostSockets,
      timeoutMs: options.probeTimeoutMs ?? 2_000,
      signal: this.#ended.signal,
      log: this.#log,
      takeover,
      stopOwnAgent: () => options.stopOwnAgent(),
      backlog: options.backlog ?? 4_096,
      allowHalfOpen: options.allowHalfOpen ?? false,
      onConnection: (socket) => options.onConnection(socket),
      onError: (error) =>
        this.#log(`${options.path} could not accept a connection: ${error.message}`, 'warn'),
    });
  }

  readonly #check = (): void => {
    if (this.#ended.signal.aborted || !this.#bound || this.#bound.holdsPlace()) return;
    if (this.#takingBack) {
      this.#changedMeanwhile = true;
      return;
    }
    this.#takingBack = this.#takeBack().finally(() => {
      this.#takingBack = undefined;
      if (this.#changedMeanwhile) this.#check();
    });
  };

  async #takeBack(): Promise<void> {
    const { path } = this.options;
    this.#changedMeanwhile = false;
    try {
      // Another forward was put there on purpose; two bridges that both insist would never end.
      const bound = await this.#take(false);
      const replaced = this.#bound;
      this.#bound = bound;
      this.#lastProblem = '';
      this.#log(`something replaced or removed the socket ${path}: took its place back`, 'warn');
      await acceptWhatIsQueued();
      replaced?.close();
      this.#watch?.renew();
      this.#changedMeanwhile = true; // a renewed watch has missed what happened before it
    } catch (error) {
      if (this.#ended.signal.aborted) return;
      const { message } = toBridgeError(error, `can't take ${path} back`);
      if (message !== this.#lastProblem)
        this.#log(`something replaced the socket ${path}: ${message}`, 'error');
      this.#lastProblem = message;
      // A directory that is gone tells nothing any more.
      if (!existsSync(dirname(path))) this.#watch?.renew();
    }
  }
}

/** Two turns of the event loop, in which clients that had connected to the old socket are accepted. */
async function acceptWhatIsQueued(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
