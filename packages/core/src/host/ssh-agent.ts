import type { Socket } from 'node:net';
import { BridgeError } from '../errors.ts';
import { changeStamp, type SocketIdentity, tellableIdentity } from '../fs/socket-identity.ts';
import { launchAgent, listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type LogCallback, noLog } from '../log.ts';
import { type Identity, parseIdentities } from '../ssh/identities.ts';
import { LIST_MESSAGE } from '../ssh/messages.ts';
import { sessionBindMessage } from '../ssh/session-bind.ts';
import { type AskSshOptions, askSshAgent } from './ask-ssh-agent.ts';
import { type AgentConnection, type ConnectOptions, connectToAgent, isPipe } from './connect.ts';
import { Remembered } from './remembered.ts';
import { type GpgAgentBehind, gpgAgentBehind, leadsTo, sshFingerprints } from './ssh-from-gpg.ts';

/** How the host's ssh-agent is found and reached; everything has a default. */
export interface HostSshAgentOptions
  extends GnupgOptions,
    Pick<ConnectOptions, 'socketFactory' | 'fileSystem'> {
  /** Use gpg-agent's own ssh-agent instead of the one in SSH_AUTH_SOCK. */
  fromGpg?: boolean | undefined;
  log?: LogCallback | undefined;
  connectTimeoutMs?: number | undefined;
}

/** A connection whose agent knows that it comes over a hop. */
export interface OpenedSshAgent {
  socket: Socket;
  /** Tells the agent that was connected to from others; undefined if its socket was replaced meanwhile. */
  place: string | undefined;
}

/** How often a connection is made anew whose socket was replaced meanwhile. */
const MOST_CONNECTS = 3;

/** Where Windows' own OpenSSH agent listens; Pageant and gpg-agent can be told to use the same name. */
const WINDOWS_PIPE = '\\\\.\\pipe\\openssh-ssh-agent';

/** The host's ssh-agent. It has no greeting and no restricted socket: the caller filters its messages. */
export class HostSshAgent {
  readonly #options: HostSshAgentOptions;
  readonly #log: LogCallback;
  readonly #gpgPath = new Remembered(() => listDir('agent-ssh-socket', this.#options));
  #launching: Promise<void> | undefined;
  /** One for all connections: a key of its own for every bridge. */
  readonly #bindMessage = sessionBindMessage();
  /** The socket of an agent that hangs up on it; another one is asked again. */
  #hangsUp: string | undefined;
  #bindAnswer: number | undefined;

  constructor(options: HostSshAgentOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? noLog;
  }

  /** The type of the agent's last answer to the bridge's own bind, if it was nothing but its type. */
  get bindAnswer(): number | undefined {
    return this.#bindAnswer;
  }

  /** Where the agent is. */
  async socketPath(): Promise<string> {
    const { fromGpg, env = process.env, platform = process.platform } = this.#options;
    if (fromGpg) return this.#gpgPath.get();
    if (env.SSH_AUTH_SOCK) return env.SSH_AUTH_SOCK;
    if (platform === 'win32') return WINDOWS_PIPE;
    throw new BridgeError('SSH_AGENT_MISSING', {
      what: 'there is no ssh-agent to bridge',
      why: 'SSH_AUTH_SOCK is not set',
      fix: 'Start one with `eval "$(ssh-agent)"`, or use gpg-agent\'s with --ssh-from-gpg.',
    });
  }

  /** Tells the agent that is there now from another one, as `OpenedSshAgent` does. */
  async place(): Promise<string> {
    return stampOf(await leadsTo(await this.socketPath(), this.#connectOptions));
  }

  get #connectOptions(): ConnectOptions {
    const { connectTimeoutMs: timeoutMs, env, platform, socketFactory, fileSystem } = this.#options;
    return { timeoutMs, env, platform, socketFactory, fileSystem };
  }

  /** Connects to the agent. That the connection fails shows as its end, also to those who do not listen yet. */
  async connect(): Promise<AgentConnection> {
    const connection = await this.#reach();
    connection.socket.on('error', () => {});
    return connection;
  }

  async #reach(): Promise<AgentConnection> {
    const path = await this.socketPath();
    const { fromGpg } = this.#options;
    const options = this.#connectOptions;
    try {
      // The bridge can't start the agent of SSH_AUTH_SOCK, so it does not wait for it either.
      return await connectToAgent(path, { ...options, waitForStart: false });
    } catch (error) {
      if (!(error instanceof BridgeError) || !isMissing(error)) throw error;
      if (!fromGpg) throw missing(path, error);
    }
    await this.#launched(path);
    this.#gpgPath.forget(); // another GnuPG may have another place for it
    const again = await this.socketPath();
    try {
      return await connectToAgent(again, { ...options, waitForStart: true });
    } catch (error) {
      throw error instanceof BridgeError && isMissing(error) ? missingFromGpg(again, error) : error;
    }
  }

  /**
   * Connects, and tells the agent that the connection comes over a hop, so that it does not offer keys that are bound
   * to destinations. An agent that refuses is older and is used all the same; one that hangs up on it twice is asked no
   * more. One that does not answer in time is not used: it may be asking a person, and would forget the hop.
   */
  async open(options: AskSshOptions = {}): Promise<OpenedSshAgent> {
    const first = await this.#openTold(options);
    if (first) return first;
    const second = await this.#openTold(options);
    if (second) return second;
    const { socket, place } = await this.#connectAtPlace();
    this.#hangsUp = place;
    this.#bindAnswer = undefined;
    this.#log(
      "the ssh-agent hangs up on session-bind: it can't tell that a client is behind a bridge",
      'warn',
    );
    return { socket, place };
  }

  /** A connection, and what is known of where it leads. */
  async #connectAtPlace(): Promise<OpenedSshAgent> {
    for (let connects = 1; ; connects++) {
      const before = await this.place();
      const { socket, socketPath } = await this.connect();
      const after = stampOf(socketPath);
      if (before === after) return { socket, place: after };
      if (connects === MOST_CONNECTS) return { socket, place: undefined };
      socket.destroy();
    }
  }

  /** A connection whose agent knows of the hop, or is known to hang up on that; undefined if it has hung up now. */
  async #openTold(options: AskSshOptions): Promise<OpenedSshAgent | undefined> {
    const opened = await this.#connectAtPlace();
    const { socket, place } = opened;
    if (place !== undefined && this.#hangsUp === place) return opened;
    try {
      const answer = await askSshAgent(socket, this.#bindMessage, options);
      this.#bindAnswer = answer.contents.length === 0 ? answer.type : undefined;
      return opened;
    } catch (error) {
      socket.destroy();
      if (error instanceof BridgeError && error.code === 'AGENT_CLOSED') return undefined;
      throw error;
    }
  }

  /** The agent's keys that are offered over a bridge, how many others are bound to destinations, and which agent it is. */
  async offeredKeys(): Promise<{ offered: Identity[]; bound: number; place: string | undefined }> {
    const sockets = [(await this.connect()).socket];
    try {
      const { socket, place } = await this.open();
      sockets.push(socket);
      const [all = [], offered = []] = await Promise.all(sockets.map(keysOf));
      return { offered, bound: Math.max(0, all.length - offered.length), place };
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  }

  /** The gpg-agent that serves as the ssh-agent, if one does. */
  async gpgAgent(): Promise<GpgAgentBehind | undefined> {
    return gpgAgentBehind(await this.socketPath(), { ...this.#options, ...this.#connectOptions });
  }

  /** Of the keys with these keygrips, the fingerprints of those that this gpg-agent may offer over SSH. */
  fingerprintsOf(
    { mainSocket }: GpgAgentBehind,
    keygrips: ReadonlySet<string>,
  ): Promise<ReadonlySet<string>> {
    return sshFingerprints(mainSocket, keygrips, this.#connectOptions).catch((error: Error) => {
      this.#log(
        `gpg-agent does not tell which keys are SSH keys, so none is offered: ${error.message}`,
        'warn',
      );
      return new Set<string>();
    });
  }

  /** The identity of the agent's socket, which holds in a target that mounts it, too. */
  async identities(): Promise<SocketIdentity[]> {
    const identity = await tellableIdentity(await this.socketPath());
    return identity ? [identity] : [];
  }

  #launched(path: string): Promise<void> {
    this.#log(`no gpg-agent at ${path}: starting it`, 'info');
    this.#launching ??= launchAgent(this.#options).finally(() => {
      this.#launching = undefined;
    });
    return this.#launching;
  }
}

/** Tells an agent's socket from another one at the same path. */
function stampOf(path: string): string {
  // To look at a pipe of Windows is to connect to it.
  if (isPipe(path)) return path;
  return `${path} ${changeStamp(path)}`;
}

async function keysOf(socket: Socket): Promise<Identity[]> {
  return parseIdentities(await askSshAgent(socket, LIST_MESSAGE)) ?? [];
}

function isMissing(error: BridgeError): boolean {
  return error.code === 'AGENT_SOCKET_MISSING' || error.code === 'AGENT_UNREACHABLE';
}

function missing(path: string, cause: BridgeError): BridgeError {
  return new BridgeError('SSH_AGENT_MISSING', {
    what: `can't connect to the ssh-agent at ${path}`,
    why: cause.why,
    fix: "Set SSH_AUTH_SOCK to the socket of an ssh-agent that runs and bring the bridge up again, or use gpg-agent's with --ssh-from-gpg.",
    cause,
  });
}

function missingFromGpg(path: string, cause: BridgeError): BridgeError {
  return new BridgeError('SSH_AGENT_MISSING', {
    what: `gpg-agent's ssh socket is missing at ${path}`,
    why: 'gpg-agent runs but does not serve it',
    fix: 'Add `enable-ssh-support` to gpg-agent.conf, run `gpgconf --kill gpg-agent`, and try again.',
    cause,
  });
}
