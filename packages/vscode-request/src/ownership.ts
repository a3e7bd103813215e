import { setTimeout as delay } from 'node:timers/promises';
import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { Heartbeat } from './heartbeat.ts';
import { findOwner, type OwnerInfo, type OwnerPeer, OwnerSocket } from './owner-socket.ts';

/**
 * How a window stands to the remote's gpg socket: it holds it, another window does, its way to the host
 * is broken, or it has no part in it.
 */
export type Role = { is: 'owner' } | { is: 'sharing'; owner: OwnerInfo } | { is: 'cut-off' } | { is: 'out' };

/** What a window needs to take part. */
export interface OwnershipOptions {
  /** Where owners of this remote's gpg socket are found: `S.gpg-bridge` beside it. */
  path: string;
  info: OwnerInfo;
  /** Resolves when the host answers. */
  ping(): Promise<unknown>;
  /** Takes the gpg socket. */
  take(): Promise<void>;
  /** Lets go of the gpg socket. */
  letGo(): Promise<void>;
  onRole(role: Role): void;
  /** What is so, for the other windows. */
  told?(): unknown;
  /** What the owner says is so. */
  onTold?(told: unknown): void;
  /** A window that shares the socket wants an operation broken off. */
  onCancel?(sessionId: string): void;
  /** The person chose Stop in another window. */
  onStop?(): void;
  /** Whether this window is allowed to use the keys: one that is comes before one that is not. */
  isAllowed?(): boolean;
  log?: LogCallback;
  pingEveryMs?: number;
  pingDeadlineMs?: number;
  infoTimeoutMs?: number;
}

/** With the deadline less than ten seconds: so long a client may wait for a host that is gone. */
const PING_EVERY_MS = 4_000;
const PING_DEADLINE_MS = 5_000;
const INFO_TIMEOUT_MS = 5_000;
/** How long a window that may not use the keys leaves a free place to one that may. */
const YIELD_MS = 500;
const LET_GO = 'let-go';
const STOP = 'stop';

/**
 * Makes sure that one window with a working way to the host holds a remote's gpg socket: whoever finds
 * nobody takes it, the others stay connected to the owner and try again at its end.
 */
export class Ownership {
  readonly #options: OwnershipOptions;
  readonly #log: LogCallback;
  readonly #heartbeat: Heartbeat;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #socket: OwnerSocket | undefined;
  #owner: OwnerPeer | undefined;
  #yield = new AbortController();

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#log = options.log ?? noLog;
    this.#heartbeat = new Heartbeat({
      ping: options.ping,
      everyMs: options.pingEveryMs ?? PING_EVERY_MS,
      deadlineMs: options.pingDeadlineMs ?? PING_DEADLINE_MS,
    });
  }

  /** Whether the host owes the answer to a ping for longer than a working line takes. */
  get isOverdue(): boolean {
    return this.#heartbeat.isOverdue;
  }

  /** Runs until `stop`; rejects if the gpg socket can't be taken. */
  run(): Promise<void> {
    this.#running ??= this.#run(this.#stop.signal).finally(() => this.#options.onRole({ is: 'out' }));
    return this.#running;
  }

  /** Lets go of what is held and returns when that is done. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running?.catch(() => {});
  }

  /** Tells the other windows what is so now, if this one holds the socket. */
  tell(): void {
    this.#socket?.tell(this.#options.told?.());
  }

  /** Asks a window that holds the socket but may not use the keys to leave it to this one. */
  askToLetGo(): void {
    this.#owner?.ask(LET_GO);
  }

  /** Asks the window that holds the socket to break an operation off. */
  askToCancel(sessionId: string): void {
    this.#owner?.ask({ cancel: sessionId });
  }

  /** Has the other windows stop too: what they were allowed may not rest on what all windows share. */
  passStopOn(): void {
    this.#owner?.ask(STOP);
    this.#socket?.tell(STOP);
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { path, info, onRole, onTold, infoTimeoutMs = INFO_TIMEOUT_MS } = this.#options;
    const socketOptions = {
      info,
      told: () => this.#options.told?.(),
      onAsked: (request: unknown) => this.#onAsked(request),
      log: this.#log,
    };
    while (!signal.aborted) {
      if (!(await this.#heartbeat.isAlive(signal))) {
        if (signal.aborted) return;
        onRole({ is: 'cut-off' });
        await this.#heartbeat.untilAlive(signal);
        continue;
      }
      const finding = await findOwner(path, infoTimeoutMs);
      if (finding.found === 'owner') {
        onRole({ is: 'sharing', owner: finding.info });
        this.#log(
          `another window (${finding.info.window}, pid ${finding.info.pid}) holds the gpg socket`,
          'info',
        );
        this.#owner = finding.peer;
        finding.peer.onTold((told) => (told === STOP ? this.#options.onStop?.() : onTold?.(told)));
        await untilEnd(finding.ended, signal);
        this.#owner = undefined;
        finding.leave();
        await this.#yieldPlace(signal);
        continue;
      }
      const socket = signal.aborted ? undefined : await OwnerSocket.claim(path, finding, socketOptions);
      if (!socket) continue;
      this.#yield = new AbortController();
      const yielding = this.#yield.signal;
      await this.#own(socket, AbortSignal.any([signal, yielding]));
      if (yielding.aborted) await this.#yieldPlace(signal);
    }
  }

  #onAsked(request: unknown): void {
    if (request === LET_GO) {
      if (!this.#isAllowed()) this.#yield.abort();
    } else if (request === STOP) {
      this.#socket?.tell(STOP);
      this.#options.onStop?.();
    } else if (typeof request === 'object' && request !== null && 'cancel' in request) {
      this.#options.onCancel?.(String(request.cancel));
    }
  }

  #isAllowed(): boolean {
    return this.#options.isAllowed?.() ?? true;
  }

  async #yieldPlace(signal: AbortSignal): Promise<void> {
    if (!this.#isAllowed()) await delay(YIELD_MS, undefined, { signal }).catch(() => {});
  }

  async #own(socket: OwnerSocket, signal: AbortSignal): Promise<void> {
    const { take, letGo, onRole } = this.#options;
    try {
      await take();
      this.#socket = socket;
      onRole({ is: 'owner' });
      const end = await this.#heartbeat.untilDead(signal, () => socket.holdsPlace());
      if (end === 'dead') {
        onRole({ is: 'cut-off' });
        this.#log('the host no longer answers: letting go of the gpg socket until it does', 'warn');
      } else if (!signal.aborted) {
        this.#log('another window took over: letting go of the gpg socket', 'warn');
      }
      await letGo();
    } finally {
      this.#socket = undefined;
      // Last, so that the next owner finds the gpg socket free.
      socket.close();
    }
  }
}

async function untilEnd(ended: Promise<void>, signal: AbortSignal): Promise<void> {
  let stop = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([ended, stopped]);
  signal.removeEventListener('abort', stop);
}
