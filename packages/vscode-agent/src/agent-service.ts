import { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import type { AgentProxy } from '@gpg-bridge/core/host/agent-proxy';
import type { ExportedKeys, HostFacts, KeyRequest, Permission } from '@gpg-bridge/vscode-shared/contract';
import { PrivateKeyWatch } from '@gpg-bridge/vscode-shared/private-key-watch';
import type { Consent, Standing } from './consent.ts';
import type { Remote } from './remote-authority.ts';

type Proxy = Pick<
  AgentProxy,
  'connectAgent' | 'sendCommands' | 'disconnectAgent' | 'exportPublicKeys' | 'stop'
>;

/** What the service needs from the extension. */
export interface AgentServiceOptions {
  version: string;
  /** Makes a proxy to the host's gpg-agent with the present settings. */
  createProxy(): Proxy;
  consent: Consent;
  /** The remote of this window; undefined in a local one. */
  remote(): Remote | undefined;
  /** The sockets of the host's own gpg-agent. */
  hostSockets(): Promise<SocketIdentity[]>;
  /** Lets the person pick keys; undefined when they closed the list. */
  chooseKeys(remote: Remote): Promise<string[] | undefined>;
  /** Called when a private-key operation waits for the person; returns what ends the notice. */
  onWaiting(purpose: string, remote: Remote): () => void;
}

const PERMISSIONS: Readonly<Record<Standing, Permission>> = {
  allow: 'allowed',
  'only-now': 'allowed',
  never: 'refused',
  ask: 'undecided',
};

/** The internal commands: an AgentProxy that only works for a remote the person has allowed. */
export class AgentService {
  readonly #options: AgentServiceOptions;
  readonly #watch: PrivateKeyWatch;
  #proxy: Proxy;
  #on = true;

  constructor(options: AgentServiceOptions) {
    this.#options = options;
    this.#proxy = options.createProxy();
    this.#watch = new PrivateKeyWatch((purpose) => options.onWaiting(purpose, this.#remote()));
  }

  /** Whether remotes are served. */
  get isOn(): boolean {
    return this.#on;
  }

  /** Serves remotes again. */
  turnOn(): void {
    this.#on = true;
  }

  /** Ends every session and serves no remote until it is turned on again. */
  async turnOff(): Promise<void> {
    this.#on = false;
    await this.#proxy.stop();
  }

  /** Ends every session and goes on with the settings as they are now. */
  async renew(): Promise<void> {
    const former = this.#proxy;
    this.#proxy = this.#options.createProxy();
    await former.stop();
  }

  /** Ends the open sessions if the person no longer allows them. */
  async enforceConsent(): Promise<void> {
    if (this.#permission() !== 'allowed') await this.#proxy.stop();
  }

  /** Opens a session with the host's gpg-agent. */
  async connectAgent(): Promise<{ sessionId: string; greeting: string }> {
    await this.#admitted();
    return this.#proxy.connectAgent();
  }

  /** Sends one command or inquiry block of a session. */
  async sendCommands(sessionId: string, block: string): Promise<{ response: string }> {
    this.#options.consent.assertAllowed(this.#remote());
    return this.#watch.exchange(sessionId, block, () => this.#proxy.sendCommands(sessionId, block));
  }

  /** Ends a session. */
  async disconnectAgent(sessionId: string): Promise<void> {
    this.#watch.forget(sessionId);
    await this.#proxy.disconnectAgent(sessionId);
  }

  /** The public keys a remote wants; with `choose` those that the person picks. */
  async exportPublicKeys(wanted: KeyRequest): Promise<ExportedKeys> {
    const remote = await this.#admitted();
    if (wanted !== 'choose') return this.#proxy.exportPublicKeys(asFilter(wanted));
    const chosen = await this.#options.chooseKeys(remote);
    return { ...(await this.#proxy.exportPublicKeys(chosen ?? 'none')), chosen };
  }

  /** The version, and what the remote may do; for a remote that is starting, also the sockets it must not listen on. */
  async checkVersion(remoteVersion?: string): Promise<HostFacts> {
    const sockets = remoteVersion === undefined ? [] : await this.#options.hostSockets();
    return { version: this.#options.version, permission: this.#permission(), sockets };
  }

  #permission(): Permission {
    const remote = this.#options.remote();
    if (!this.#on) return 'stopped';
    return remote ? PERMISSIONS[this.#options.consent.standingOf(remote)] : 'refused';
  }

  async #admitted(): Promise<Remote> {
    const remote = this.#remote();
    if (!this.#on) throw turnedOff();
    await this.#options.consent.require(remote);
    return remote;
  }

  #remote(): Remote {
    const remote = this.#options.remote();
    if (remote) return remote;
    throw new BridgeError('CONSENT_DENIED', {
      what: 'GPG Bridge does nothing in this window',
      why: 'it is not connected to a remote',
      fix: 'Open a folder in a container, over SSH or in WSL first.',
    });
  }
}

/** Checks what a remote asked for: VS Code passes on anything. */
function asFilter(wanted: unknown): KeyFilter {
  if (wanted === 'pairs' || wanted === 'all') return wanted;
  if (Array.isArray(wanted) && wanted.every((name) => typeof name === 'string')) return wanted;
  throw new BridgeError('USAGE', {
    what: "can't export public keys",
    why: 'the remote asked for neither "pairs", "all" nor a list of keys',
    fix: 'Correct the setting gpgBridgeRequest.autoSyncPublicKeys in the remote.',
  });
}

function turnedOff(): BridgeError {
  return new BridgeError('HOST_TURNED_OFF', {
    what: 'the keys of your computer are not available here',
    why: 'GPG Bridge is stopped on your computer',
    fix: 'Run "GPG Bridge: Start on This Computer" from the command palette.',
  });
}
