import { type LogCallback, noLog } from '@gpg-bridge/core/log';
import { Heartbeat } from './heartbeat.ts';
import { findOwner, type OwnerInfo, OwnerSocket } from './owner-socket.ts';

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
  log?: LogCallback;
  pingEveryMs?: number;
  pingDeadlineMs?: number;
  infoTimeoutMs?: number;
}

const PING_EVERY_MS = 10_000;
const PING_DEADLINE_MS = 5_000;
const INFO_TIMEOUT_MS = 5_000;

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

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#log = options.log ?? noLog;
    this.#heartbeat = new Heartbeat({
      ping: options.ping,
      everyMs: options.pingEveryMs ?? PING_EVERY_MS,
      deadlineMs: options.pingDeadlineMs ?? PING_DEADLINE_MS,
    });
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

  async #run(signal: AbortSignal): Promise<void> {
    const { path, info, onRole, infoTimeoutMs = INFO_TIMEOUT_MS } = this.#options;
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
        await untilEnd(finding.ended, signal);
        finding.leave();
        continue;
      }
      const socket = signal.aborted ? undefined : await OwnerSocket.claim(path, info, finding, this.#log);
      if (socket) await this.#own(socket, signal);
    }
  }

  async #own(socket: OwnerSocket, signal: AbortSignal): Promise<void> {
    const { take, letGo, onRole } = this.#options;
    try {
      await take();
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
