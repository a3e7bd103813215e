import type { Operation } from '@gpg-bridge/core/assuan/operation';
import { BridgeError, type ErrorCode, toBridgeError } from '@gpg-bridge/core/errors';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { LogCallback } from '@gpg-bridge/core/log';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { hasPrivateKeys } from '@gpg-bridge/core/remote/keyring';
import type { CheckPurpose, HostFacts, OwnKeysAnswer, Permission } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import type { WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import { ErrorBoard, type ErrorOrigin, onThisSide } from './error-board.ts';
import { type Host, problemOf } from './host.ts';
import { findForward } from './other-forward.ts';
import { Retry } from './retry.ts';
import { CurrentSituation } from './situation.ts';
import { OwnAgentInPlace, type ShareTiming, SocketShare } from './socket-share.ts';
import type { Situation } from './status.ts';

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
  timing?: ShareTiming & { retryMs?: number };
}

/** Errors that say what the person decided. */
const DECISIONS: ReadonlySet<ErrorCode> = new Set(['CONSENT_DENIED', 'CONSENT_REQUIRED', 'HOST_TURNED_OFF']);

/** The remote's side in one window: shares the gpg socket with other windows and serves it when it is ours. */
export class RemoteBridge {
  readonly #options: RemoteBridgeOptions;
  readonly #situation: CurrentSituation;
  readonly #share: SocketShare;
  readonly #errors = new ErrorBoard((error) => this.#situation.updateOwn({ error }));
  readonly #retry: Retry;
  /** Started for this period of owning and being allowed. */
  #serving = false;
  #last: Promise<void> = Promise.resolve();

  constructor(options: RemoteBridgeOptions) {
    const { host, version, log, timing: { retryMs, ...timing } = {} } = options;
    this.#options = options;
    this.#retry = new Retry(retryMs);
    this.#situation = new CurrentSituation({
      onChange: (situation) => options.onSituation(situation),
      onOwnChange: () => this.#share.tell(),
    });
    this.#share = new SocketShare({
      host,
      situation: this.#situation,
      info: () => ({ version, pid: process.pid, window: options.windowName() }),
      ping: () => this.#ping(),
      onStop: () => options.onStop(),
      onOwner: () => void this.look(),
      onLetGo: () => {
        this.#serving = false;
      },
      onLost: (error) => void this.#notTaken(error, true),
      onSessionOpened: () => {
        this.#errors.forgetTold();
        this.#errors.clear('host');
        if (this.#situation.own.permission !== 'allowed') void this.look();
      },
      onSessionRefused: (error) => this.fail(error, 'host'),
      isTracing: () => options.isTracing(),
      log,
      timing,
    });
  }

  /** The present situation, as the status bar shows it. */
  get situation(): Situation {
    return this.#situation.all;
  }

  /** Where this remote's gpg looks for its agent, once that is known. */
  get socketPath(): string | undefined {
    return this.#share.socketPath;
  }

  /** Starts, and returns when this window has a role or can't have one. */
  start({ takeover = false, automatic = false } = {}): Promise<void> {
    this.#retry.cancel();
    return this.#inTurn(async () => {
      if (this.#share.isJoined) return;
      this.#situation.update({ wanted: true, ownKeys: undefined });
      try {
        await this.#start(takeover, automatic);
        this.#retry.reset();
        this.#errors.clear('start');
      } catch (error) {
        await this.#notTaken(error, automatic);
      }
    });
  }

  /** Ends every session, gives the socket to another window if there is one, and returns when that is done. */
  stop(): Promise<void> {
    this.#retry.cancel();
    this.#share.cancelTakeOver();
    return this.#inTurn(async () => {
      await this.#letGo();
      this.#errors.clearAll();
      this.#situation.update({ wanted: false, ownKeys: undefined });
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
    if (!this.#share.isJoined && this.#situation.own.permission === 'allowed') await this.start();
  }

  /** Asks the host what is so. */
  async look(): Promise<void> {
    await this.#ping().catch(() => {}); // a host that does not answer is noticed by ownership
  }

  /** Counts an operation that waits for the person; the returned function counts it out again. */
  startWaiting(use: WaitingUse): () => void {
    return this.#situation.startWaiting(use);
  }

  /** Breaks off an operation that waits for the person, through the window that holds the socket. */
  cancel(sessionId: string): void {
    this.#share.askToCancel(sessionId);
  }

  /** Has the other windows of this remote stop. */
  passStopOn(): void {
    this.#share.passStopOn();
  }

  /** Remembers what the keys were used for; returns whether that was a private key. */
  addOperation(operation: Operation): boolean {
    return this.#situation.addOperation(operation);
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
    if (this.#share.problem !== undefined) void this.restart({ automatic: true });
  }

  /** Takes in what the host says, and does what follows from it. */
  #learn(facts: HostFacts): void {
    const former = this.#situation.own.permission;
    const { permission, until } = facts;
    const problem = problemOf(facts);
    if (problem) {
      if (this.#errors.at('host')?.message !== problem.message) this.fail(problem, 'host', true);
    } else this.#errors.clear('host');
    if (permission !== former || until !== this.#situation.own.until)
      this.#situation.updateOwn({ permission, until });
    this.#follow(former, facts);
  }

  #follow(former: Permission, facts: HostFacts): void {
    const { permission } = facts;
    const { role, heldBack } = this.#situation.all;
    if (permission === 'off') {
      if (this.#share.isJoined) void this.#inTurn(() => this.#letGo());
    } else if (former === 'off' && !this.#share.isJoined) void this.start({ automatic: true });
    else if (permission === 'allowed' && heldBack) void this.start({ automatic: true });
    if (permission !== 'allowed' || facts.problem !== undefined) this.#serving = false;
    else if (role.is === 'owner') this.#serve(facts);
    else if (role.is === 'sharing') this.#share.takeOverSoon();
  }

  /** Whatever led to it: once this window holds the socket and is allowed, signing is made to work. */
  #serve({ sockets }: HostFacts): void {
    if (this.#serving || !this.#share.isServing) return;
    this.#serving = true;
    // Before it was allowed this remote could not know the host's own sockets.
    const loop = this.#share.findLoop(sockets);
    if (loop) {
      void this.#inTurn(() => this.#letGo());
      this.fail(loop, 'start', true);
      return;
    }
    this.#situation.updateOwn({ preparing: true });
    this.#options
      .onServing()
      .then(
        () => this.#errors.clear('keys'),
        (error: unknown) => this.fail(error, 'keys', true),
      )
      .finally(() => this.#situation.updateOwn({ preparing: false }));
  }

  async #start(takeover: boolean, automatic: boolean): Promise<void> {
    const gnupg = this.#options.gnupg();
    this.#situation.update({ heldBack: false });
    const facts = await this.#options.host.meet();
    this.#learn(facts);
    if (facts.permission === 'off' || !(await this.#mayHideOwnKeys(gnupg, automatic))) {
      this.#situation.update({ forward: undefined });
      return;
    }
    await this.#share.join({ gnupg, hostSockets: facts.sockets ?? [], takeover });
  }

  /** What kept this window from a role is left alone and said, or is an error. */
  async #notTaken(error: unknown, automatic: boolean): Promise<void> {
    const { log } = this.#options;
    if (error instanceof BridgeError && error.cause instanceof OwnAgentInPlace) {
      this.#retry.reset();
      this.#errors.clear('start');
      this.#situation.update({ heldBack: true, forward: undefined });
      log('the gpg-agent of this remote keeps its place until you allow the keys of your computer', 'info');
      return;
    }
    const forward = await findForward(error, this.#share.socketPath ?? '');
    if (forward) {
      if (!this.#situation.all.forward) log(toBridgeError(error, '').message, 'info');
      this.#errors.clear('start');
    } else this.fail(onThisSide(error), 'start', automatic);
    this.#situation.update({ forward });
    this.#retry.later(() => {
      if (this.#situation.all.wanted) void this.start({ automatic: true });
    });
  }

  /** Whether nothing speaks against taking the place of the remote's own agent. */
  async #mayHideOwnKeys(gnupg: GnupgOptions, automatic: boolean): Promise<boolean> {
    const { ownKeys, askAboutOwnKeys } = this.#options;
    if (!(await hasPrivateKeys(new DirectOperations(gnupg)))) return true;
    const known = ownKeys();
    const answer = known === 'set-aside' || automatic ? known : await askAboutOwnKeys();
    if (answer === 'set-aside') return true;
    this.#situation.update({ ownKeys: answer === 'keep' ? 'keep' : 'undecided' });
    return false;
  }

  async #letGo(): Promise<void> {
    this.#situation.update({ heldBack: false, forward: undefined });
    await this.#share.leave();
  }

  /** Starts and stops never overlap. */
  #inTurn(step: () => Promise<void>): Promise<void> {
    const done = this.#last.then(step);
    this.#last = done.catch(() => {});
    return done;
  }
}
