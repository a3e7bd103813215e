import { dirname, join } from 'node:path';
import { type BridgeError, type ErrorCode, toBridgeError } from '@gpg-bridge/core/errors';
import { listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { LogCallback } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { hasPrivateKeys } from '@gpg-bridge/core/remote/keyring';
import { type RequestProxyInstance, startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import type { Host } from './host.ts';
import { Ownership, type OwnershipOptions, type Role } from './ownership.ts';
import type { Situation } from './status.ts';

/** What the bridge of one window needs. */
export interface RemoteBridgeOptions {
  host: Host;
  version: string;
  /** What the person calls this window. */
  windowName(): string;
  gnupg(): GnupgOptions;
  log: LogCallback;
  /** Whether the remote's own private keys may become unusable while the bridge is up. */
  mayHideOwnKeys(): Promise<boolean>;
  onSituation(situation: Situation): void;
  /** A failure that the person has not been told of yet; `automatic` if nobody had asked for anything. */
  onError(error: BridgeError, automatic: boolean): void;
  /** This window has taken the gpg socket. */
  onOwner(): void;
  timing?: Pick<OwnershipOptions, 'pingEveryMs' | 'pingDeadlineMs' | 'infoTimeoutMs'>;
}

/** The first session waits for the person's consent. A carrier that died is noticed by ownership's pings. */
const CARRIER_TIMEOUT_MS = 10 * 60_000;

/** Errors that say what the person decided. */
const DECISIONS: ReadonlySet<ErrorCode> = new Set(['CONSENT_DENIED', 'HOST_TURNED_OFF']);

const OWNER_SOCKET = 'S.gpg-bridge';

/** The remote's side in one window: shares the gpg socket with other windows and serves it when it is ours. */
export class RemoteBridge {
  readonly #options: RemoteBridgeOptions;
  #situation: Situation = {
    wanted: false,
    role: { is: 'out' },
    sessions: 0,
    waiting: 0,
    permission: 'undecided',
  };
  #told: string | undefined;
  #ownership: Ownership | undefined;
  #proxy: RequestProxyInstance | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(options: RemoteBridgeOptions) {
    this.#options = options;
  }

  /** The present situation, as the status bar shows it. */
  get situation(): Situation {
    return this.#situation;
  }

  /** Starts, and returns when this window has a role or can't have one. */
  start({ takeover = false, automatic = false } = {}): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#ownership) return;
      this.#update({ wanted: true, error: undefined, offReason: undefined });
      try {
        await this.#start(takeover);
      } catch (error) {
        this.fail(error, automatic);
      }
    });
  }

  /** Ends every session, gives the socket to another window if there is one, and returns when that is done. */
  stop(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#ownership?.stop();
      this.#ownership = undefined;
      this.#update({ wanted: false, error: undefined, offReason: undefined, sessions: 0 });
    });
  }

  /** Counts an operation that waits for the person; the returned function counts it out again. */
  startWaiting(): () => void {
    this.#update({ waiting: this.#situation.waiting + 1 });
    return () => this.#update({ waiting: this.#situation.waiting - 1 });
  }

  /** Shows an error until something works again, and tells the person once. */
  fail(error: unknown, automatic = false): void {
    const failure = toBridgeError(error, 'GPG Bridge failed');
    // What the person decided is not an error; the status says what they decided.
    if (DECISIONS.has(failure.code)) void this.checkPermission();
    else this.#update({ error: failure });
    if (this.#told === failure.message) return;
    if (!automatic) this.#told = failure.message;
    this.#options.log(failure.message, 'warn');
    this.#options.onError(failure, automatic);
  }

  /** Clears an error that is shown, after something worked again. */
  recover(): void {
    this.#told = undefined;
    if (this.#situation.error) this.#update({ error: undefined });
    if (this.#situation.permission !== 'allowed') void this.checkPermission();
  }

  /** Asks the host what this remote may do. */
  async checkPermission(): Promise<void> {
    await this.#ping().catch(() => {}); // a host that does not answer is noticed by ownership
  }

  async #ping(): Promise<void> {
    const permission = await this.#options.host.ping();
    if (permission !== this.#situation.permission) this.#update({ permission });
  }

  async #start(takeover: boolean): Promise<void> {
    const { host, version, log, mayHideOwnKeys, windowName, timing } = this.#options;
    const gnupg = this.#options.gnupg();
    const { sockets: hostSockets, permission } = await host.meet(version);
    this.#update({ permission });
    if ((await hasPrivateKeys(new DirectOperations(gnupg))) && !(await mayHideOwnKeys())) {
      this.#update({ wanted: false, offReason: 'You chose to keep using the private keys of this remote.' });
      return;
    }
    const socketPath = await listDir('agent-socket', gnupg);
    const take = async () => {
      this.#proxy = await startRequestProxy(
        {
          ...gnupg,
          logCallback: log,
          hostSockets,
          takeover,
          carrierTimeoutMs: CARRIER_TIMEOUT_MS,
          onSessionsChanged: (sessions) => this.#update({ sessions }),
        },
        { commandExecutor: this.#reportingExecutor(), getSocketPath: async () => socketPath },
      );
      log(`listening on ${this.#proxy.socketPath}`, 'info');
    };
    const letGo = async () => {
      await this.#proxy?.stop();
      this.#proxy = undefined;
      this.#update({ sessions: 0 });
    };
    const ownership = new Ownership({
      path: join(dirname(socketPath), OWNER_SOCKET),
      info: { version, pid: process.pid, window: windowName() },
      ping: () => this.#ping(),
      take,
      letGo,
      onRole: (role) => this.#enter(role),
      log,
      ...timing,
    });
    this.#ownership = ownership;
    await this.#firstRole(ownership);
  }

  /** Returns when the window has its first role; rejects with what kept it from one. */
  async #firstRole(ownership: Ownership): Promise<void> {
    const ended = ownership.run();
    const settled = new Promise<void>((resolve) => {
      this.#onFirstRole = resolve;
    });
    try {
      await Promise.race([ended, settled]);
    } catch (error) {
      this.#ownership = undefined;
      throw error;
    }
    ended.catch((error: unknown) => {
      if (this.#ownership === ownership) this.#ownership = undefined;
      this.fail(error);
    });
  }

  #onFirstRole = () => {};

  #enter(role: Role): void {
    this.#update({ role });
    if (role.is === 'out') return;
    this.#onFirstRole();
    if (role.is === 'owner') this.#options.onOwner();
  }

  /** The host's commands; a session that opens or fails to open updates the status. */
  #reportingExecutor() {
    const { host } = this.#options;
    return {
      connectAgent: async () => {
        try {
          const session = await host.connectAgent();
          this.recover();
          return session;
        } catch (error) {
          this.fail(error);
          throw error;
        }
      },
      sendCommands: (sessionId: string, block: string) => host.sendCommands(sessionId, block),
      disconnectAgent: (sessionId: string) => host.disconnectAgent(sessionId),
    };
  }

  #update(change: Partial<Situation>): void {
    this.#situation = { ...this.#situation, ...change };
    this.#options.onSituation(this.#situation);
  }

  /** Starts and stops never overlap. */
  #inTurn(step: () => Promise<void>): Promise<void> {
    const done = this.#last.then(step);
    this.#last = done.catch(() => {});
    return done;
  }
}
