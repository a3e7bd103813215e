import { dirname, join } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import { lstatIdentitySync, type SocketIdentity, sameIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { killAgent, listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { CommandExecutor } from '@gpg-bridge/core/remote/agent-channel';
import { type RequestProxyInstance, startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { OwnerInfo } from './owner-socket.ts';
import { Ownership, type OwnershipOptions, type Role } from './ownership.ts';
import type { CurrentSituation } from './situation.ts';

/** The times of the ownership that are not as usual. */
export type ShareTiming = Pick<OwnershipOptions, 'pingEveryMs' | 'pingDeadlineMs' | 'infoTimeoutMs'>;

/** What a window needs to take part in a remote's gpg socket. */
export interface SocketShareOptions extends Required<Pick<OwnershipOptions, 'ping' | 'onStop'>> {
  /** The host's commands, with which the socket's clients are joined. */
  host: CommandExecutor;
  situation: CurrentSituation;
  info(): OwnerInfo;
  log: LogCallback;
  /** Whether every state of a session is logged. */
  isTracing(): boolean;
  /** This window holds the socket. */
  onOwner(): void;
  /** The socket was let go. */
  onLetGo(): void;
  /** It had a role and can't have one any more. */
  onLost(error: unknown): void;
  /** The host has opened a session for a client. */
  onSessionOpened(): void;
  /** The host has opened none. */
  onSessionRefused(error: unknown): void;
  timing?: ShareTiming | undefined;
}

/** How a window joins the others of its remote. */
export interface JoinOptions {
  gnupg: GnupgOptions;
  /** The host agents' own sockets, which are never replaced. */
  hostSockets: readonly SocketIdentity[];
  /** Whether another forward's place is taken. */
  takeover: boolean;
}

/** The first session waits for the person's consent. A carrier that died is noticed by ownership's pings. */
const CARRIER_TIMEOUT_MS = 10 * 60_000;

/** How long the window that holds the socket has to learn what this one knows already. */
const TAKE_OVER_MS = 500;

const OWNER_SOCKET = 'S.gpg-bridge';

/** The remote's own agent is in the way, and stays there until the person has allowed something else. */
export class OwnAgentInPlace extends Error {}

/** A window's share in the gpg socket of its remote: it serves the socket when it is the one that holds it. */
export class SocketShare {
  readonly #options: SocketShareOptions;
  #ownership: Ownership | undefined;
  #proxy: RequestProxyInstance | undefined;
  #socketPath: string | undefined;
  #takeOver: NodeJS.Timeout | undefined;
  #onFirstRole = () => {};

  constructor(options: SocketShareOptions) {
    this.#options = options;
  }

  /** Whether the window takes part. */
  get isJoined(): boolean {
    return this.#ownership !== undefined;
  }

  /** Where this remote's gpg looks for its agent, once that is known. */
  get socketPath(): string | undefined {
    return this.#socketPath;
  }

  /** Whether this window is the one that holds the socket. */
  get isServing(): boolean {
    return this.#proxy !== undefined;
  }

  /** What took the served socket's place for good. */
  get problem(): string | undefined {
    return this.#proxy?.problem;
  }

  /** Takes part, and returns when this window has its first role; rejects with what kept it from one. */
  async join({ gnupg, hostSockets, takeover }: JoinOptions): Promise<void> {
    const { host, situation, ping, onStop, log, timing } = this.#options;
    const socketPath = await listDir('agent-socket', gnupg);
    this.#socketPath = socketPath;
    const ownership = new Ownership({
      path: join(dirname(socketPath), OWNER_SOCKET),
      info: this.#options.info(),
      ping,
      take: () => this.#take(socketPath, { gnupg, hostSockets, takeover }),
      letGo: () => this.#letGo(),
      onRole: (role) => this.#enter(role),
      told: () => situation.own,
      onTold: (told) => {
        if (situation.hear(told)) this.takeOverSoon();
      },
      onCancel: (sessionId) => void host.disconnectAgent(sessionId).catch(() => {}), // it may have ended
      onStop,
      isAllowed: () => situation.own.permission === 'allowed',
      log,
      ...timing,
    });
    this.#ownership = ownership;
    await this.#firstRole(ownership);
  }

  /** Gives the socket to another window if there is one, and returns when that is done. */
  async leave(): Promise<void> {
    await this.#ownership?.stop();
    this.#ownership = undefined;
  }

  /** Tells the other windows what is so now, if this one holds the socket. */
  tell(): void {
    this.#ownership?.tell();
  }

  /** A window that may use the keys takes over from one that may not; that one may be about to learn that it may. */
  takeOverSoon(): void {
    clearTimeout(this.#takeOver);
    this.#takeOver = setTimeout(() => {
      const { role, own, shared } = this.#options.situation.all;
      if (role.is !== 'sharing' || own.permission !== 'allowed') return;
      if (shared && shared.permission !== 'allowed') this.#ownership?.askToLetGo();
    }, TAKE_OVER_MS).unref();
  }

  /** Leaves the socket to the window that holds it. */
  cancelTakeOver(): void {
    clearTimeout(this.#takeOver);
  }

  /** Asks the window that holds the socket to break an operation off. */
  askToCancel(sessionId: string): void {
    this.#ownership?.askToCancel(sessionId);
  }

  /** Has the other windows stop too. */
  passStopOn(): void {
    this.#ownership?.passStopOn();
  }

  /** The error of a window whose socket is one of the host's own: what is asked there would come back. */
  findLoop(hostSockets: readonly SocketIdentity[] | undefined): BridgeError | undefined {
    const path = this.#proxy?.socketPath;
    const here = path === undefined ? undefined : lstatIdentitySync(path);
    const isHosts = here && hostSockets?.some((socket) => sameIdentity(socket, here));
    return path !== undefined && isHosts ? isHostsOwn(path) : undefined;
  }

  async #take(socketPath: string, { gnupg, hostSockets, takeover }: JoinOptions): Promise<void> {
    const { situation, isTracing, log } = this.#options;
    this.#proxy = await startRequestProxy(
      {
        ...gnupg,
        logCallback: log,
        isTracing: () => isTracing(),
        hostSockets,
        takeover,
        carrierTimeoutMs: CARRIER_TIMEOUT_MS,
        onSessionsChanged: (sessions) => situation.updateOwn({ sessions }),
        isOverdue: () => this.#ownership?.isOverdue ?? false,
      },
      {
        commandExecutor: this.#reportingExecutor(),
        getSocketPath: async () => socketPath,
        stopOwnAgent: async () => {
          if (situation.own.permission !== 'allowed')
            throw new OwnAgentInPlace('you have not allowed the keys of your computer here yet');
          await killAgent(gnupg);
        },
      },
    );
    log(`listening on ${this.#proxy.socketPath}`, 'info');
  }

  /** The host's commands; whether a session opens or fails to open is reported. */
  #reportingExecutor(): CommandExecutor {
    const { host, onSessionOpened, onSessionRefused } = this.#options;
    return {
      connectAgent: async (first) => {
        try {
          const session = await host.connectAgent(first);
          onSessionOpened();
          return session;
        } catch (error) {
          onSessionRefused(error);
          throw error;
        }
      },
      sendCommands: (...args) => host.sendCommands(...args),
      disconnectAgent: (sessionId) => host.disconnectAgent(sessionId),
    };
  }

  async #letGo(): Promise<void> {
    await this.#proxy?.stop();
    this.#proxy = undefined;
    this.#options.onLetGo();
    this.#options.situation.updateOwn({ sessions: 0, waiting: [] });
  }

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
      if (this.#ownership !== ownership) return;
      this.#ownership = undefined;
      this.#options.onLost(error);
    });
  }

  #enter(role: Role): void {
    const { situation, onOwner } = this.#options;
    situation.update(role.is === 'sharing' ? { role } : { role, shared: undefined });
    if (role.is === 'out') return;
    situation.update({ forward: undefined });
    this.#onFirstRole();
    if (role.is === 'owner') onOwner();
  }
}

function isHostsOwn(path: string): BridgeError {
  return new BridgeError('SOCKET_IS_HOST_AGENT', {
    what: t("can't listen on {0}", path),
    why: t('it leads to the agent of your computer itself'),
    fix: t('No bridge is needed here: programs already talk to that agent.'),
  });
}
