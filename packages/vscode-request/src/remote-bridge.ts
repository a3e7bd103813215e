import { dirname, join } from 'node:path';
import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { BridgeError, type ErrorCode, toBridgeError } from '@gpg-bridge/core/errors';
import { lstatIdentitySync, sameIdentity } from '@gpg-bridge/core/fs/socket-identity';
import { killAgent, listDir } from '@gpg-bridge/core/gnupg/gpgconf';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { LogCallback } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { hasPrivateKeys } from '@gpg-bridge/core/remote/keyring';
import { type RequestProxyInstance, startRequestProxy } from '@gpg-bridge/core/remote/request-proxy';
import type { CheckPurpose, HostFacts, OwnKeysAnswer, Permission } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import { RecentOperations } from '@gpg-bridge/vscode-shared/recent-operations';
import { ErrorBoard, type ErrorOrigin, onThisSide } from './error-board.ts';
import { type Host, problemOf } from './host.ts';
import { findForward } from './other-forward.ts';
import { Ownership, type OwnershipOptions, type Role } from './ownership.ts';
import type { Situation, Truth } from './status.ts';

/** What the bridge of one window needs. */
export interface RemoteBridgeOptions {
  host: Host;
  version: string;
  /** What the person calls this window. */
  windowName(): string;
  gnupg(): GnupgOptions;
  log: LogCallback;
  /** Whether every state of a session is logged. */
  isTracing(): boolean;
  /** What the person answered about private keys of the remote's own. */
  ownKeys(): OwnKeysAnswer | undefined;
  /** Asks them; undefined when they gave no answer. */
  askAboutOwnKeys(): Promise<OwnKeysAnswer | undefined>;
  onSituation(situation: Situation): void;
  /** A failure that the person has not been told of yet; `automatic` if nobody had asked for anything. */
  onError(error: BridgeError, automatic: boolean): void;
  /** The person chose Stop in another window of this remote. */
  onStop(): void;
  /** This window serves the gpg socket, and is allowed to: what makes signing work is due. */
  onServing(): Promise<void>;
  timing?: Pick<OwnershipOptions, 'pingEveryMs' | 'pingDeadlineMs' | 'infoTimeoutMs'> & { retryMs?: number };
}

/** The first session waits for the person's consent. A carrier that died is noticed by ownership's pings. */
const CARRIER_TIMEOUT_MS = 10 * 60_000;

/** What went wrong is tried again after this time, and after twice as long each time up to the longest. */
const RETRY_MS = 3_000;
const LONGEST_RETRY_MS = 15_000;
/** How long the window that holds the socket has to learn what this one knows already. */
const TAKE_OVER_MS = 500;

/** Errors that say what the person decided. */
const DECISIONS: ReadonlySet<ErrorCode> = new Set(['CONSENT_DENIED', 'CONSENT_REQUIRED', 'HOST_TURNED_OFF']);

const OWNER_SOCKET = 'S.gpg-bridge';

/** What is so before anything is known. */
const NOTHING: Truth = { permission: 'undecided', sessions: 0, waiting: [], operations: [] };

/** The remote's own agent is in the way, and stays there until the person has allowed something else. */
class OwnAgentInPlace extends Error {}

/** The remote's side in one window: shares the gpg socket with other windows and serves it when it is ours. */
export class RemoteBridge {
  readonly #options: RemoteBridgeOptions;
  readonly #operations = new RecentOperations();
  readonly #errors = new ErrorBoard((error) => this.#updateOwn({ error }));
  #situation: Situation = {
    wanted: false,
    role: { is: 'out' },
    own: NOTHING,
  };
  #ownership: Ownership | undefined;
  #proxy: RequestProxyInstance | undefined;
  #socketPath: string | undefined;
  /** Started for this period of owning and being allowed. */
  #serving = false;
  #retry: NodeJS.Timeout | undefined;
  #takeOver: NodeJS.Timeout | undefined;
  #failures = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: RemoteBridgeOptions) {
    this.#options = options;
  }

  /** The present situation, as the status bar shows it. */
  get situation(): Situation {
    return this.#situation;
  }

  /** Where this remote's gpg looks for its agent, once that is known. */
  get socketPath(): string | undefined {
    return this.#socketPath;
  }

  /** Starts, and returns when this window has a role or can't have one. */
  start({ takeover = false, automatic = false } = {}): Promise<void> {
    clearTimeout(this.#retry);
    return this.#inTurn(async () => {
      if (this.#ownership) return;
      this.#update({ wanted: true, ownKeys: undefined });
      try {
        await this.#start(takeover, automatic);
        this.#failures = 0;
        this.#errors.clear('start');
      } catch (error) {
        await this.#notTaken(error, automatic);
      }
    });
  }

  /** Ends every session, gives the socket to another window if there is one, and returns when that is done. */
  stop(): Promise<void> {
    clearTimeout(this.#retry);
    clearTimeout(this.#takeOver);
    return this.#inTurn(async () => {
      await this.#letGo();
      this.#errors.clearAll();
      this.#update({ wanted: false, ownKeys: undefined });
    });
  }

  /** Stops and starts anew. */
  async restart(options: { takeover?: boolean; automatic?: boolean } = {}): Promise<void> {
    await this.stop();
    await this.start(options);
  }

  /** Has the person asked on their computer, and goes on with what they answer. */
  async allow(purpose: CheckPurpose = 'person-asks'): Promise<void> {
    try {
      this.#learn(await this.#options.host.check(purpose));
    } catch (error) {
      this.fail(error, 'host');
      return;
    }
    if (!this.#ownership && this.#situation.own.permission === 'allowed') await this.start();
  }

  /** Asks the host what is so. */
  async look(): Promise<void> {
    await this.#ping().catch(() => {}); // a host that does not answer is noticed by ownership
  }

  /** Counts an operation that waits for the person; the returned function counts it out again. */
  startWaiting(use: WaitingUse): () => void {
    this.#updateOwn({ waiting: [...this.#situation.own.waiting, use] });
    return () => this.#updateOwn({ waiting: this.#situation.own.waiting.filter((other) => other !== use) });
  }

  /** Breaks off an operation that waits for the person, through the window that holds the socket. */
  cancel(sessionId: string): void {
    this.#ownership?.askToCancel(sessionId);
  }

  /** Has the other windows of this remote stop. */
  passStopOn(): void {
    this.#ownership?.passStopOn();
  }

  /** Remembers what the keys were used for; returns whether that was a private key. */
  addOperation(operation: Operation): boolean {
    if (!this.#operations.add(operation)) return false;
    this.#updateOwn({ operations: [...this.#operations.list()] });
    return true;
  }

  /** Shows an error until something works again, and tells the person once. */
  fail(error: unknown, origin: ErrorOrigin, automatic = false): void {
    const failure = toBridgeError(error, t('GPG Bridge failed'));
    // What the person decided is not an error; the status says what they decided.
    if (DECISIONS.has(failure.code)) void this.look();
    else this.#errors.put(origin, failure);
    if (!this.#errors.isNews(failure, automatic)) return;
    this.#options.log(failure.message, 'warn');
    this.#options.onError(failure, automatic);
  }

  /** Clears an error of the key sync, after that worked. */
  keysSynced(): void {
    this.#errors.clear('keys');
  }

  async #ping(): Promise<void> {
    this.#learn(await this.#options.host.check());
    // Something took the socket's place for good: a new start finds out what.
    if (this.#proxy?.problem !== undefined) void this.restart({ automatic: true });
  }

  /** Takes in what the host says, and does what follows from it. */
  #learn(facts: HostFacts): void {
    const former = this.#situation.own.permission;
    const { permission, until } = facts;
    const problem = problemOf(facts);
    if (problem) {
      if (this.#errors.at('host')?.message !== problem.message) this.fail(problem, 'host', true);
    } else this.#errors.clear('host');
    if (permission !== former || until !== this.#situation.own.until) this.#updateOwn({ permission, until });
    this.#follow(former, facts);
  }

  #follow(former: Permission, facts: HostFacts): void {
    const { permission } = facts;
    const { role } = this.#situation;
    if (permission === 'off') {
      if (this.#ownership) void this.#inTurn(() => this.#letGo());
    } else if (former === 'off' && !this.#ownership) void this.start({ automatic: true });
    else if (permission === 'allowed' && this.#situation.heldBack) void this.start({ automatic: true });
    if (permission !== 'allowed' || facts.problem !== undefined) this.#serving = false;
    else if (role.is === 'owner') this.#serve(facts);
    else if (role.is === 'sharing') this.#takeOverSoon();
  }

  /** A window that may use the keys takes over from one that may not; that one may be about to learn that it may. */
  #takeOverSoon(): void {
    clearTimeout(this.#takeOver);
    this.#takeOver = setTimeout(() => {
      const { role, own, shared } = this.#situation;
      if (role.is !== 'sharing' || own.permission !== 'allowed') return;
      if (shared && shared.permission !== 'allowed') this.#ownership?.askToLetGo();
    }, TAKE_OVER_MS).unref();
  }

  /** Whatever led to it: once this window holds the socket and is allowed, signing is made to work. */
  #serve({ sockets }: HostFacts): void {
    if (this.#serving || !this.#proxy) return;
    this.#serving = true;
    const here = lstatIdentitySync(this.#proxy.socketPath);
    // Before it was allowed this remote could not know the host's own sockets.
    if (here && sockets?.some((socket) => sameIdentity(socket, here))) {
      void this.#inTurn(() => this.#letGo());
      this.fail(isHostsOwn(this.#proxy.socketPath), 'start', true);
      return;
    }
    this.#updateOwn({ preparing: true });
    this.#options
      .onServing()
      .then(
        () => this.#errors.clear('keys'),
        (error: unknown) => this.fail(error, 'keys', true),
      )
      .finally(() => this.#updateOwn({ preparing: false }));
  }

  async #start(takeover: boolean, automatic: boolean): Promise<void> {
    const { host, version, log, windowName, timing } = this.#options;
    const gnupg = this.#options.gnupg();
    this.#update({ heldBack: false });
    const facts = await host.meet();
    this.#learn(facts);
    if (facts.permission === 'off' || !(await this.#mayHideOwnKeys(gnupg, automatic))) {
      this.#update({ forward: undefined });
      return;
    }
    const socketPath = await listDir('agent-socket', gnupg);
    this.#socketPath = socketPath;
    const take = async () => {
      this.#proxy = await startRequestProxy(
        {
          ...gnupg,
          logCallback: log,
          isTracing: () => this.#options.isTracing(),
          hostSockets: facts.sockets ?? [],
          takeover,
          carrierTimeoutMs: CARRIER_TIMEOUT_MS,
          onSessionsChanged: (sessions) => this.#updateOwn({ sessions }),
          isOverdue: () => this.#ownership?.isOverdue ?? false,
        },
        {
          commandExecutor: this.#reportingExecutor(),
          getSocketPath: async () => socketPath,
          stopOwnAgent: async () => {
            if (this.#situation.own.permission !== 'allowed')
              throw new OwnAgentInPlace('you have not allowed the keys of your computer here yet');
            await killAgent(gnupg);
          },
        },
      );
      log(`listening on ${this.#proxy.socketPath}`, 'info');
    };
    const letGo = async () => {
      await this.#proxy?.stop();
      this.#proxy = undefined;
      this.#serving = false;
      this.#updateOwn({ sessions: 0, waiting: [] });
    };
    const ownership = new Ownership({
      path: join(dirname(socketPath), OWNER_SOCKET),
      info: { version, pid: process.pid, window: windowName() },
      ping: () => this.#ping(),
      take,
      letGo,
      onRole: (role) => this.#enter(role),
      told: () => this.#situation.own,
      onTold: (told) => this.#hear(told),
      onCancel: (sessionId) => void host.disconnectAgent(sessionId).catch(() => {}), // it may have ended
      onStop: () => this.#options.onStop(),
      isAllowed: () => this.#situation.own.permission === 'allowed',
      log,
      ...timing,
    });
    this.#ownership = ownership;
    await this.#firstRole(ownership);
  }

  /** What kept this window from a role is left alone and said, or is an error. */
  async #notTaken(error: unknown, automatic: boolean): Promise<void> {
    const { log } = this.#options;
    if (error instanceof BridgeError && error.cause instanceof OwnAgentInPlace) {
      this.#failures = 0;
      this.#errors.clear('start');
      this.#update({ heldBack: true, forward: undefined });
      log('the gpg-agent of this remote keeps its place until you allow the keys of your computer', 'info');
      return;
    }
    const forward = await findForward(error, this.#socketPath ?? '');
    if (forward) {
      if (!this.#situation.forward) log(toBridgeError(error, '').message, 'info');
      this.#errors.clear('start');
    } else this.fail(onThisSide(error), 'start', automatic);
    this.#update({ forward });
    this.#tryAgain();
  }

  /** Whether nothing speaks against taking the place of the remote's own agent. */
  async #mayHideOwnKeys(gnupg: GnupgOptions, automatic: boolean): Promise<boolean> {
    const { ownKeys, askAboutOwnKeys } = this.#options;
    if (!(await hasPrivateKeys(new DirectOperations(gnupg)))) return true;
    const known = ownKeys();
    const answer = known === 'set-aside' || automatic ? known : await askAboutOwnKeys();
    if (answer === 'set-aside') return true;
    this.#update({ ownKeys: answer === 'keep' ? 'keep' : 'undecided' });
    return false;
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
      if (this.#ownership !== ownership) return;
      this.#ownership = undefined;
      void this.#notTaken(error, true);
    });
  }

  #onFirstRole = () => {};

  #enter(role: Role): void {
    this.#update(role.is === 'sharing' ? { role } : { role, shared: undefined });
    if (role.is === 'out') return;
    this.#update({ forward: undefined });
    this.#onFirstRole();
    if (role.is === 'owner') void this.look();
  }

  /** Takes in what the window that holds the socket says is so. */
  #hear(told: unknown): void {
    if (typeof told !== 'object' || told === null || !('permission' in told)) return;
    this.#update({ shared: { ...NOTHING, ...(told as Partial<Truth>) } });
    this.#takeOverSoon();
  }

  async #letGo(): Promise<void> {
    this.#update({ heldBack: false, forward: undefined });
    await this.#ownership?.stop();
    this.#ownership = undefined;
  }

  #tryAgain(): void {
    const { retryMs = RETRY_MS } = this.#options.timing ?? {};
    const pause = Math.min(retryMs * 2 ** this.#failures++, LONGEST_RETRY_MS);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      if (this.#situation.wanted) void this.start({ automatic: true });
    }, pause).unref();
  }

  /** The host's commands; a session that opens or fails to open updates the status. */
  #reportingExecutor() {
    const { host } = this.#options;
    return {
      connectAgent: async (first?: Parameters<Host['connectAgent']>[0]) => {
        try {
          const session = await host.connectAgent(first);
          this.#errors.forgetTold();
          this.#errors.clear('host');
          if (this.#situation.own.permission !== 'allowed') void this.look();
          return session;
        } catch (error) {
          this.fail(error, 'host');
          throw error;
        }
      },
      sendCommands: (...args: Parameters<Host['sendCommands']>) => host.sendCommands(...args),
      disconnectAgent: (sessionId: string) => host.disconnectAgent(sessionId),
    };
  }

  #updateOwn(change: Partial<Truth>): void {
    this.#update({ own: { ...this.#situation.own, ...change } });
    this.#ownership?.tell();
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

function isHostsOwn(path: string): BridgeError {
  return new BridgeError('SOCKET_IS_HOST_AGENT', {
    what: t("can't listen on {0}", path),
    why: t('it leads to the agent of your computer itself'),
    fix: t('No bridge is needed here: programs already talk to that agent.'),
  });
}
