import type { AheadReply } from '@gpg-bridge/core/assuan/answer-table';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import type { GnupgOptions } from '@gpg-bridge/core/gnupg/programs';
import type { AgentProxy, OpenedSession } from '@gpg-bridge/core/host/agent-proxy';
import type { CheckPurpose, ExportedKeys, HostFacts, KeyRequest } from '@gpg-bridge/vscode-shared/contract';
import { t } from '@gpg-bridge/vscode-shared/l10n';
import { PrivateKeyWatch, type WaitingUse } from '@gpg-bridge/vscode-shared/private-key-watch';
import type { ConfirmedSettings } from './confirmed-settings.ts';
import type { Consent } from './consent.ts';
import type { Remote } from './remote-authority.ts';
import { asFirstBlock, asToldBlock } from './told-block.ts';

type Proxy = Pick<
  AgentProxy,
  'connectAgent' | 'sendCommands' | 'disconnectAgent' | 'exportPublicKeys' | 'stop'
>;

/** What the service needs from the extension. */
export interface AgentServiceOptions {
  version: string;
  consent: Consent;
  settings: ConfirmedSettings;
  /** The remote of this window; undefined in a local one. */
  remote(): Remote | undefined;
  /** Makes a proxy to the host's gpg-agent. */
  createProxy(gnupg: GnupgOptions): Proxy;
  /** Starts the host's gpg-agent if need be, and returns its sockets; throws what keeps the keys from being used. */
  checkAgent(gnupg: GnupgOptions): Promise<SocketIdentity[]>;
  /** Lets the person pick keys; undefined when they closed the list. */
  chooseKeys(remote: Remote, gnupg: GnupgOptions): Promise<string[] | undefined>;
  /** Called when a private-key operation waits for the person; returns what ends the notice. */
  onWaiting(use: WaitingUse, remote: Remote): () => void;
  now?(): number;
}

/** What was found out about the host's agent. */
type Health = Pick<HostFacts, 'sockets' | 'problem'>;

/** How long it counts: a problem is looked at again soon, so that it goes away when it is mended. */
const GOOD_FOR_MS = 60_000;
const BAD_FOR_MS = 2_000;
/** More sessions than a proxy opens; those that ended without a word are forgotten first. */
const MOST_ADMITTED = 1_024;
/** Keys that a remote may name. */
const MOST_KEYS = 1_000;

/** The internal commands: an AgentProxy that only works for a remote the person has allowed. */
export class AgentService {
  readonly #options: AgentServiceOptions;
  readonly #watch: PrivateKeyWatch;
  readonly #now: () => number;
  /** The tokens that open sessions were admitted with. */
  readonly #admitted = new Map<string, unknown>();
  /** Made when it is first needed, which is never before consent. */
  #proxy: { of: Proxy; gpgBinDir: string | undefined } | undefined;
  #health: { of: Promise<Health>; until: number; gpgBinDir: string | undefined } | undefined;

  constructor(options: AgentServiceOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#watch = new PrivateKeyWatch((use) => options.onWaiting(use, this.#remote()));
  }

  /** Ends every session. */
  async end(): Promise<void> {
    this.#admitted.clear();
    await this.#proxy?.of.stop();
  }

  /** Ends the open sessions if the person no longer allows them, and looks at the agent afresh. */
  async enforce(): Promise<void> {
    this.#health = undefined;
    const remote = this.#options.remote();
    const stands = (token: unknown) =>
      remote !== undefined && this.#options.consent.standing(remote, token).permission === 'allowed';
    if (![...this.#admitted.values()].every(stands)) await this.#proxy?.of.stop();
  }

  /** Opens a session with the host's gpg-agent, maybe with a client's first command. */
  async connectAgent(token?: unknown, first?: unknown): Promise<OpenedSession> {
    await this.#admit(token);
    const opened = await this.#proxyNow().connectAgent(asFirstBlock(first));
    this.#admitted.set(opened.sessionId, token);
    const [oldest] = this.#admitted.keys();
    if (this.#admitted.size > MOST_ADMITTED && oldest !== undefined) this.#admitted.delete(oldest);
    return opened;
  }

  /** Sends one command or inquiry block of a session, behind the lines that the remote has answered. */
  async sendCommands(
    sessionId: string,
    block: string,
    ahead?: unknown,
  ): Promise<{ response: string; ahead?: AheadReply }> {
    this.#options.consent.assertAllowed(this.#remote(), this.#admitted.get(sessionId));
    const told = asToldBlock(ahead);
    const send = () => this.#proxyNow().sendCommands(sessionId, block, told);
    return this.#watch.exchange(sessionId, block, send, told?.lines);
  }

  /** Ends a session. */
  async disconnectAgent(sessionId: string): Promise<void> {
    this.#watch.forget(sessionId);
    if (!this.#admitted.delete(sessionId)) return;
    await this.#proxy?.of.disconnectAgent(sessionId);
  }

  /** The public keys a remote wants; with `choose` those that the person picks. */
  async exportPublicKeys(wanted: KeyRequest, token?: unknown): Promise<ExportedKeys> {
    const remote = await this.#admit(token);
    const proxy = this.#proxyNow();
    if (wanted !== 'choose') return proxy.exportPublicKeys(asFilter(wanted));
    const chosen = await this.#options.chooseKeys(remote, this.#gnupg());
    return { ...(await proxy.exportPublicKeys(chosen ?? 'none')), chosen };
  }

  /**
   * The version, and what the remote may do; has the person asked if that is its purpose. A remote that is
   * allowed also learns at which sockets it must not listen, and what is wrong with the host's agent.
   */
  async checkVersion(
    remoteVersion?: unknown,
    token?: unknown,
    purpose: CheckPurpose = 'look',
  ): Promise<HostFacts> {
    const { version, consent } = this.#options;
    const remote = this.#options.remote();
    if (!remote) return { version, permission: 'refused' };
    const asks = purpose === 'program-asks' || purpose === 'person-asks';
    const given = asks ? await consent.ask(remote, token, purpose) : undefined;
    const standing = consent.standing(remote, given ?? token);
    const facts: HostFacts = { version, ...standing, ...(given === undefined ? {} : { token: given }) };
    const isAllowed = standing.permission === 'allowed';
    return remoteVersion === undefined || !isAllowed ? facts : { ...facts, ...(await this.#checkAgent()) };
  }

  /** Ends an operation that waits for the person. */
  async cancel(sessionId: string): Promise<void> {
    await this.disconnectAgent(sessionId).catch(() => {}); // it may have ended by itself
  }

  async #admit(token: unknown): Promise<Remote> {
    const { consent, settings } = this.#options;
    const remote = this.#remote();
    consent.assertAllowed(remote, token);
    await settings.confirm();
    // A dialog may have been open for a while.
    consent.assertAllowed(remote, token);
    return remote;
  }

  #gnupg(): GnupgOptions {
    return { gpgBinDir: this.#options.settings.gpgBinDir() };
  }

  /** The proxy for the settings as they are confirmed now; sessions of a former one end. */
  #proxyNow(): Proxy {
    const { gpgBinDir } = this.#gnupg();
    if (this.#proxy && this.#proxy.gpgBinDir === gpgBinDir) return this.#proxy.of;
    void this.#proxy?.of.stop();
    this.#proxy = { of: this.#options.createProxy({ gpgBinDir }), gpgBinDir };
    return this.#proxy.of;
  }

  #checkAgent(): Promise<Health> {
    const { settings, checkAgent } = this.#options;
    let gpgBinDir: string | undefined;
    try {
      gpgBinDir = settings.gpgBinDir();
      const open = settings.unconfirmedBinDir();
      if (open !== undefined) throw unconfirmed(open);
    } catch (error) {
      return Promise.resolve({ problem: toBridgeError(error, '').toJSON() });
    }
    const known = this.#health;
    if (known && known.gpgBinDir === gpgBinDir && this.#now() < known.until) return known.of;
    const looking = { of: undefined as unknown as Promise<Health>, until: Infinity, gpgBinDir };
    looking.of = checkAgent({ gpgBinDir }).then(
      (sockets): Health => {
        looking.until = this.#now() + GOOD_FOR_MS;
        return { sockets };
      },
      (error: unknown): Health => {
        looking.until = this.#now() + BAD_FOR_MS;
        return { problem: toBridgeError(error, t("can't use the GPG keys of your computer")).toJSON() };
      },
    );
    this.#health = looking;
    return looking.of;
  }

  #remote(): Remote {
    const remote = this.#options.remote();
    if (remote) return remote;
    throw new BridgeError('CONSENT_DENIED', {
      what: t('GPG Bridge does nothing in this window'),
      why: t('it is not connected to a remote'),
      fix: t('Open a folder in a container, over SSH or in WSL first.'),
    });
  }
}

function unconfirmed(gpgBinDir: string): BridgeError {
  return new BridgeError('SETTING_UNCONFIRMED', {
    what: t('the setting gpgBridgeAgent.gpgBinDir of your computer is not used yet'),
    why: t('you have not confirmed the directory {0}', gpgBinDir),
    fix: t('Choose Confirm… in the GPG Bridge menu in the status bar.'),
  });
}

/** Checks what a remote asked for: VS Code passes on anything. */
function asFilter(wanted: unknown): KeyFilter {
  if (wanted === 'pairs' || wanted === 'all') return wanted;
  // A run of gpg for each of them.
  const isList = Array.isArray(wanted) && wanted.length <= MOST_KEYS;
  if (isList && wanted.every((name) => typeof name === 'string')) return [...new Set(wanted)];
  throw new BridgeError('USAGE', {
    what: t("can't copy public keys"),
    why: t('the remote asked for neither "pairs", "all" nor a list of keys'),
    fix: t('Correct the setting gpgBridgeRequest.autoSyncPublicKeys in the remote.'),
  });
}
