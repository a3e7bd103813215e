import { dirname } from 'node:path';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { KeyUsages } from '@gpg-bridge/core/host/key-usages';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import type { Bridge } from '../bridge/bridge.ts';
import { heartbeatTimes } from '../bridge/heartbeat-times.ts';
import type { HostAgents, KnownKeys } from '../bridge/host-agents.ts';
import type { Journal } from '../bridge/journal.ts';
import type { NarrowedKeys } from '../bridge/narrowed-keys.ts';
import type { SshLook } from '../bridge/ssh-offers.ts';
import { type BridgeOptions, givenGpgSocket, isGpgImplied, isSshImplied } from '../bridge-options.ts';
import type { Narrowing } from '../grants/restrictions.ts';
import { inHome } from '../targets/home.ts';
import type { Target } from '../targets/target.ts';
import type { DaemonStatus } from './control.ts';
import type { DaemonState } from './daemon-state.ts';
import { findHolder } from './find-holder.ts';
import type { Predecessor } from './handover.ts';
import type { KeyUses } from './key-uses.ts';
import { removeOldLogs } from './old-logs.ts';
import type { BridgeFiles } from './state-dir.ts';
import { unlessEnding } from './unless-ending.ts';

/** What a daemon attaches with. */
export interface AttachmentOptions {
  /** The target, which may be another one each time. */
  target(): Target;
  /** The daemon's files, which may have other names each time. */
  files(): BridgeFiles;
  /** As they are by now. */
  options(): BridgeOptions;
  state: DaemonState;
  keyUses: KeyUses;
  journal: Journal;
  log: LogCallback;
  /** Whether every step of every session is logged. */
  verbose: boolean;
  /** Ends a bridge, and gives up on one that is not ready yet. */
  signal: AbortSignal;
}

const UNLISTED = 'no SSH key can be used until the ssh-agent lists its keys, which it did not do in time';

const FOREIGN =
  "the host can't tell the home directory of the gpg-agent at --gpg-socket, so of its keys only those that your own gpg knows can be used";

type LateModules = typeof import('./late-modules.ts');

/** What a bridge takes over from the one in whose place it comes. */
export type Succession = Pick<Predecessor, 'sockets' | 'keeps'>;

/** How a daemon is attached to its target: by one bridge after the other, with the agents that the host has then. */
export class Attachment {
  readonly #options: AttachmentOptions;
  #bridge: Bridge | undefined;
  #late: LateModules | undefined;
  #starting: Promise<unknown> | undefined;
  #agents: HostAgents = {};
  #agentWarnings: readonly string[] = [];
  readonly #leftOut: { ssh: readonly string[]; gpg: string | undefined } = { ssh: [], gpg: undefined };
  #usages: KeyUsages | undefined;
  /** Whether the gpg-agent of --gpg-socket has a home directory that can't be told. */
  #isForeign = false;
  #missing: readonly string[] = [];
  #keys: KnownKeys = { offers: { gpg: null, ssh: null }, owners: new Map() };
  /** Totals of earlier bridges of this daemon, from before it attached again. */
  #before = { sessions: 0, toHost: 0, toTarget: 0 };

  constructor(options: AttachmentOptions) {
    this.#options = options;
  }

  /** The bridge that serves the target now; one that is lost serves nobody, however long it takes to end. */
  get bridge(): Bridge | undefined {
    return this.#bridge?.isLost ? undefined : this.#bridge;
  }

  /** Resolves when an attempt to attach that is going on has come to a bridge, or to nothing. */
  async untilStarted(): Promise<void> {
    await this.#starting?.catch(() => {});
  }

  /** Keys that the grant seems to allow and that are left out, with the reason. */
  get leftOut(): readonly string[] {
    const { ssh, gpg } = this.#leftOut;
    return [...ssh, ...(gpg === undefined ? [] : [gpg])];
  }

  /** What a person should know of the host's agents. */
  get agentWarnings(): readonly string[] {
    return [...this.#agentWarnings, ...this.leftOut];
  }

  /** Agents of the host that were wanted and not found. */
  get missing(): readonly string[] {
    return this.#missing;
  }

  /** What is known of the host's private keys. */
  get keys(): KnownKeys {
    return this.#keys;
  }

  /** Sessions and bytes of all bridges so far. */
  get totals(): Pick<DaemonStatus, 'sessions' | 'bytes'> {
    const stats = this.#bridge?.stats;
    return {
      sessions: {
        open: stats?.streams.open ?? 0,
        total: this.#before.sessions + (stats?.streams.total ?? 0),
      },
      bytes: {
        toHost: this.#before.toHost + (stats?.bytes.received ?? 0),
        toTarget: this.#before.toTarget + (stats?.bytes.sent ?? 0),
      },
    };
  }

  /**
   * Attaches once, calls `ready`, and serves until that bridge ends; resolves with why it did. The sockets of a bridge
   * that leaves them to it are taken. `ready` gets a signal for a bridge that is lost
   * meanwhile, or told to end; what it throws then has that as its reason.
   */
  async run(
    succession: Succession | undefined,
    ready: (lost: AbortSignal) => Promise<void>,
  ): Promise<string> {
    const { state, log, signal } = this.#options;
    const options = this.#options.options();
    const target = this.#options.target();
    const starting = this.#start(target, succession);
    this.#starting = starting;
    const bridge = await starting;
    const lost = new AbortController();
    let end = (_why: string) => {};
    const over = new Promise<string>((resolve) => {
      end = resolve;
    });
    const asked = () => {
      lost.abort();
      end('it was told to');
    };
    // At once, though why it was lost and `bridge.stop` take time: an `up` that comes meanwhile must not reuse it.
    const leave = () => state.enter(signal.aborted || !options.restart ? 'ending' : 'waiting-for-target');
    bridge.once('lost', (error) => {
      leave();
      if (error && !signal.aborted) state.lastError = error.why;
      lost.abort();
    });
    const reason = new Promise<BridgeError | undefined>((resolve) => bridge.once('end', resolve));
    void reason.then((error) => end(error?.why ?? 'it was stopped'));
    signal.addEventListener('abort', asked);
    // Without events of the engine, the end of the command's streams shows that the target has stopped.
    const watching = target.watch(end, log).catch((error: Error) => {
      log(`${target.name} can't be watched: ${error.message}`, 'warn');
      return () => {};
    });
    try {
      this.#bridge = bridge;
      state.enterReady();
      log(`bridged ${target.name}: ${bridge.info.sockets.map(({ path }) => path).join(', ')}`, 'info');
      await ready(lost.signal).catch(async (error: unknown) => {
        throw bridge.isLost && !signal.aborted ? ((await reason) ?? error) : error;
      });
      bridge.forgetEvents();
      bridge.watchKeys();
      const files = this.#options.files();
      removeOldLogs(dirname(files.log), dirname(files.control));
      state.tellReady();
      const why = await over;
      leave();
      state.lastError = signal.aborted ? state.lastError : why;
      log(`the bridge is over: ${why}`, 'info');
      return why;
    } finally {
      signal.removeEventListener('abort', asked);
      void watching.then((unwatch) => unwatch());
      await bridge.stop();
      const { streams, bytes } = bridge.stats;
      this.#before.sessions += streams.total;
      this.#before.toHost += bytes.received;
      this.#before.toTarget += bytes.sent;
      this.#bridge = undefined;
    }
  }

  /** Has the bridge that serves the target keep to the options as they are by now, as far as no key is looked up. */
  keepToOptions(): void {
    this.#options.keyUses.narrow({});
    if (!this.#late) return;
    this.#askPerson(this.#late);
    void this.#findLeftOutGpgKeys(this.#late);
  }

  /** The same for what is said about keys. Throws for one that is not there, and if an agent does not say which it has. */
  async keepToKeys(named: Narrowing): Promise<void> {
    await this.untilStarted(); // what is being attached was given the options of before
    const late = await import('./late-modules.ts');
    const { gpg, gpgCount, ssh } = await late.narrowedKeys(named, this.#agents);
    const look = ssh && (await this.#agents.sshOffers?.look(ssh));
    if (look && !look.listed) {
      this.#leftOut.ssh = [UNLISTED];
      throw unlisted();
    }
    const ofGpg = gpg ? { gpg } : {};
    if (look) this.#applyLook(look, ofGpg, late);
    else this.#options.keyUses.narrow(ofGpg);
    const count = named.gpg === false ? null : gpgCount;
    if (count !== undefined) this.#keys = { ...this.#keys, offers: { ...this.#keys.offers, gpg: count } };
    await this.#findLeftOutGpgKeys(late);
  }

  /** Has sessions use no other SSH keys than those that the ssh-agent offers now. */
  #applyLook(look: SshLook, ofGpg: Pick<NarrowedKeys, 'gpg'>, late: LateModules): void {
    look.apply();
    const isChoice = look.isNarrowed || (this.#options.options().sshKeys ?? []).length > 0;
    const ssh = isChoice ? { ssh: late.fingerprintsOf(look.offered) } : {};
    this.#options.keyUses.narrow({ ...ofGpg, ...ssh });
    const { sshKeys: _before, ...others } = this.#keys.offers;
    this.#keys = { ...this.#keys, offers: { ...others, ...late.sshOffersOf(look) } };
    this.#leftOut.ssh = look.leftOut;
  }

  /** Only a narrowed grant leaves keys out, and only then the lookup is worth waiting for. */
  async #findLeftOutGpgKeys({ isEverything, leftOutKeys }: LateModules): Promise<void> {
    const { grant } = this.#options.keyUses.use;
    const hasGpg = this.#agents.gpg && this.#options.options().gpg !== false;
    this.#leftOut.gpg = undefined;
    if (!hasGpg || !grant || !this.#usages) return;
    if (isEverything(grant)) {
      this.#usages.prepare();
      return;
    }
    const owners = [...this.#keys.owners].map(([key, { name }]) => [key, name] as const);
    const leftOut = leftOutKeys(owners, await this.#usages.refresh(), grant);
    if (grant !== this.#options.keyUses.use.grant) return; // it was narrowed meanwhile, and looked at again
    this.#leftOut.gpg = this.#isForeign ? [FOREIGN, leftOut].filter(Boolean).join('; ') : leftOut;
  }

  #askPerson({ confirmUses, notifyOfUses }: Pick<LateModules, 'confirmUses' | 'notifyOfUses'>): void {
    const { keyUses, log } = this.#options;
    const { confirm, notify } = this.#options.options();
    const name = () => this.#options.target().name;
    if (confirm) keyUses.use.confirm ??= confirmUses(name, log);
    if (notify) keyUses.use.notify ??= notifyOfUses(name, log);
  }

  /** Starts the bridge that the options describe, with the host's agents. */
  async #start(target: Target, succession: Succession | undefined): Promise<Bridge> {
    const { keyUses, journal, log, verbose, signal } = this.#options;
    const options = this.#options.options();
    await unlessEnding(target.check(), signal);
    const launched = await unlessEnding(
      target.exec(inHome(options.home, launcherCommand(chosenRuntime(options)))),
      signal,
      (late) => late.kill(),
    );
    const late = await import('./late-modules.ts');
    this.#late = late;
    const { afterKeyringChange, Bridge, findHostAgents, homeOfAgent, KeyUsages } = late;
    const { use } = keyUses;
    this.#askPerson(late);
    // Looked for at every attachment: one that was missing may be there by now.
    const findAgents = async () => {
      const ownUsages = new KeyUsages({ log });
      const socket = givenGpgSocket(options);
      const gnupg = socket === undefined ? undefined : await homeOfAgent(socket);
      this.#isForeign = socket !== undefined && !gnupg;
      const usages = gnupg?.env ? new KeyUsages({ log, ...gnupg }) : ownUsages;
      use.usages = usages;
      this.#usages = usages;
      const found = await findHostAgents(options, log, succession?.keeps, ownUsages, gnupg);
      this.#agentWarnings = found.warnings;
      this.#leftOut.ssh = found.leftOut;
      this.#missing = found.missing;
      this.#keys = found.keys;
      this.#agents = found.agents;
      keyUses.grant(found.gpgKeygrips, found.sshFingerprints);
      await this.#findLeftOutGpgKeys(late);
      return found.agents;
    };
    return Bridge.start({
      target,
      launched,
      agents: findAgents(),
      ...(options.gpg === false ? {} : { keys: options.keys ?? 'pairs' }),
      runtime: chosenRuntime(options),
      takeover: options.takeover,
      ahead: options.ahead,
      git: options.git,
      holderOf: (socket) => findHolder(this.#options.files().control, socket),
      succeeds: succession?.sockets,
      required: [...requiredSockets(options), ...(succession?.keeps ?? [])],
      use,
      heartbeat: heartbeatTimes(process.env),
      onKeysChange: async () => {
        this.#keys = await afterKeyringChange(this.#keys, this.#options.options(), this.#agents.gnupg).catch(
          () => this.#keys,
        );
        await this.#usages?.refresh();
      },
      journal,
      log,
      traceLog: verbose ? log : undefined,
      signal,
    });
  }
}

function unlisted(): BridgeError {
  return new BridgeError('SSH_AGENT_MISSING', {
    what: "can't narrow which SSH keys may be used",
    why: 'the ssh-agent does not list its keys, so none of them can be used',
    fix: 'Check that `ssh-add -l` works on the host.',
  });
}

/** The sockets that a person asked for by name: without one of them the bridge fails. */
function requiredSockets(options: BridgeOptions): SocketType[] {
  const { gpg = isGpgImplied(options), ssh = isSshImplied(options) } = options;
  return [...(gpg ? ['gpg-agent' as const] : []), ...(ssh ? ['ssh-agent' as const] : [])];
}

function chosenRuntime({ runtime }: BridgeOptions): Runtime | undefined {
  return runtime === 'auto' ? undefined : runtime;
}
