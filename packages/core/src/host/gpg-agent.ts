import type { NetConnectOpts, Socket } from 'node:net';
import { ask } from '../assuan/ask.ts';
import { type AnswersOutcome, awaitAnswers } from '../assuan/await-answers.ts';
import type { Block } from '../assuan/block-scanner.ts';
import { GREETING_TIMEOUT_MS } from '../assuan/greeting.ts';
import { BridgeError, type ErrorCode } from '../errors.ts';
import { changeStamp, type SocketIdentity, tellableIdentity } from '../fs/socket-identity.ts';
import { configuredPath } from '../gnupg/agent-conf.ts';
import { launchAgent, listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { ViewSocket } from '../io/view-socket.ts';
import { writeFirst } from '../io/write-first.ts';
import { writeNow } from '../io/write-now.ts';
import { type LogCallback, noLog } from '../log.ts';
import { type AgentConnection, type ConnectOptions, connectToAgent } from './connect.ts';
import type { GivingUp } from './giving-up.ts';
import {
  answersInPieces,
  type FirstQuestions,
  type OpenedAgent,
  type OpenOptions,
  type OpenOutcome,
  onceMore,
  openAgent,
  openSocket,
} from './open-agent.ts';
import { OpeningQueue } from './opening-queue.ts';
import { Remembered } from './remembered.ts';

/** How the host's gpg-agent is found and reached; everything has a default. */
export interface HostGpgAgentOptions
  extends GnupgOptions,
    Pick<ConnectOptions, 'socketFactory' | 'fileSystem'> {
  log?: LogCallback | undefined;
  connectTimeoutMs?: number | undefined;
  greetingTimeoutMs?: number | undefined;
  /** The extra socket, where neither gpg-agent.conf nor gpgconf tells it. */
  socketPath?: string | undefined;
}

/** Failures that mean no agent is there, so that starting one is worth a try. */
const NO_AGENT_CODES: readonly ErrorCode[] = ['AGENT_SOCKET_MISSING', 'AGENT_UNREACHABLE'];

/** How an agent was reached that has greeted. */
interface Reached {
  path: string;
  /** That of the socket when it was connected to. */
  stamp: string | undefined;
  /** Called when the agent ends before it has answered them. */
  again: (() => void) | undefined;
  signal: GivingUp | undefined;
}

/** What every connection is asked first. */
const INTRODUCTION: FirstQuestions = {
  bytes: Buffer.from('GETINFO restricted\nGETINFO version\n'),
  count: 2,
};
/** How long an agent that has greeted may take for what it is asked beside that: a card may keep it busy. */
const QUESTIONS_MS = 1_000;
/** How often a socket that was replaced meanwhile is checked for one connection. */
const MOST_CHECKS = 5;

/**
 * The host's gpg-agent behind its extra socket. gpg-agent.conf and gpgconf are asked for the path once, and again
 * when no agent listens there any more; an agent that is not running is started.
 */
export class HostGpgAgent {
  readonly #options: HostGpgAgentOptions;
  readonly #log: LogCallback;
  /** Asked again after a failure, since GnuPG may be installed while the bridge runs. */
  readonly #path = new Remembered(
    async () =>
      (await configuredPath('extra-socket', this.#options)) ?? listDir('agent-extra-socket', this.#options),
  );
  #launching: Promise<void> | undefined;
  readonly #queue = new OpeningQueue((outcome, signal, questions) =>
    this.#openNow(outcome, signal, questions),
  );
  /** The check before the first use of the socket, and of every one that an agent makes in its place. */
  readonly #check = new Remembered(() => onceMore(() => this.#checkRestricted()));
  /** The socket that was checked; an agent that is started again makes another. */
  #checked: { path: string; stamp: string | undefined } | undefined;
  /** The checked path if it is a Unix socket: it can be connected to without reading a socket file first. */
  #directPath: string | undefined;
  /** For the next connection, and not connected yet. */
  #spare: ViewSocket | undefined;
  /** A nonce was refused: the socket file is of an agent that is gone, and its port somebody else's. */
  #stale = false;

  constructor(options: HostGpgAgentOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? noLog;
  }

  /** Connects to the extra socket, after a check that it is the restricted one. */
  async connect(): Promise<AgentConnection> {
    for (let attempt = 1; attempt <= MOST_CHECKS; attempt++) {
      await this.#check.get();
      const connection = await this.#connect();
      if (this.#isChecked(connection)) {
        this.#directPath = connection.kind === 'unix' ? connection.path : undefined;
        return connection;
      }
      connection.socket.destroy();
      this.#forgetCheck();
    }
    throw restartedAgain(await this.socketPath());
  }

  /** Whether a connection leads to the socket that was checked. Its stamp is taken after the connection was made. */
  #isChecked({ path, socketPath }: Pick<AgentConnection, 'path' | 'socketPath'>): boolean {
    return path === this.#checked?.path && changeStamp(socketPath) === this.#checked.stamp;
  }

  /** The agent was started again, or its socket replaced: what is there now has not been asked yet. */
  #forgetCheck(): void {
    this.#directPath = undefined;
    this.#check.forget();
  }

  /**
   * Opens a connection: `outcome` is called when the agent has greeted, or can't be used. A Unix socket that
   * was used before is connected to at once; an agent that has to be found, started or waited for takes
   * `connect`, and so does one that closes such a connection before it greets. `questions` are asked where that costs
   * nothing; an agent that takes long for them is opened without.
   */
  open(outcome: OpenOutcome, signal?: GivingUp, questions?: FirstQuestions): void {
    this.#queue.open(outcome, signal, questions);
  }

  /** Makes the next connection's socket, if none is there: that takes as long as to connect it, so while nobody waits. */
  prepare(): void {
    if (this.#directPath !== undefined) this.#spare ??= new ViewSocket();
  }

  #openNow(outcome: OpenOutcome, signal: GivingUp | undefined, questions: FirstQuestions | undefined): void {
    const path = this.#directPath;
    if (path === undefined) {
      this.#openAnew(outcome, signal);
      return;
    }
    const first = questionsWith(questions);
    const anew = () => this.#openAnew(outcome, signal);
    const withoutQuestions = () => this.#openNow(outcome, signal, undefined);
    const isChecked = () => this.#isChecked({ path, socketPath: path });
    const socket = this.#createSocket({ path });
    // It is asked before it has greeted: its answers come right behind. Bytes that are taken show that it is connected.
    const taken = isChecked() ? writeFirst(socket, first.bytes) : 0;
    const isAsked = taken === first.bytes.length;
    const direct: OpenOutcome = {
      opened: (agent) => {
        const { socket: opened, answers = [] } = agent;
        if (taken === 0 && !isChecked()) {
          end(opened);
          this.#forgetCheck();
          anew();
          return;
        }
        const reached = { path, stamp: this.#checked?.stamp, again: anew, signal };
        if (isAsked) introduced(agent, answers, reached, outcome);
        else if (taken <= INTRODUCTION.bytes.length) this.#introduce(agent, taken, reached, outcome);
        else {
          end(opened); // it has a half of the other questions
          withoutQuestions();
        }
      },
      failed: (error) => {
        if (first !== INTRODUCTION && error.code === 'AGENT_RESPONSE_TIMEOUT') withoutQuestions();
        else outcome.failed(error);
      },
    };
    const answersMs = first === INTRODUCTION ? undefined : QUESTIONS_MS;
    const asked = isAsked ? { questions: first.count, answersMs } : {};
    openSocket(socket, { ...this.#openOptions(signal), ...asked }, direct, anew);
  }

  #openOptions(signal: GivingUp | undefined): OpenOptions {
    return { greetingTimeoutMs: this.#options.greetingTimeoutMs, log: this.#log, signal };
  }

  #openAnew(outcome: OpenOutcome, signal: GivingUp | undefined, isRepeated = false): void {
    const again = isRepeated ? undefined : () => this.#openAnew(outcome, signal, true);
    const reached: Reached = { path: '', stamp: undefined, again, signal };
    const connect = async () => {
      const connection = await this.connect();
      reached.path = connection.socketPath;
      reached.stamp = this.#checked?.stamp;
      return connection;
    };
    const greeted: OpenOutcome = {
      opened: (agent) => this.#introduce(agent, 0, reached, outcome),
      failed: (error) => outcome.failed(error),
    };
    openAgent(connect, greeted, this.#openOptions(signal));
  }

  /** Asks what is left of the first questions, of which so many bytes were taken, and waits for the answers. */
  #introduce(
    { socket, greeting: received, greetingLength = received.length }: OpenedAgent,
    taken: number,
    reached: Reached,
    outcome: OpenOutcome,
  ): void {
    // What an agent says that was asked nothing is no answer, and stays with the greeting.
    const greeting = taken > 0 ? received.subarray(0, greetingLength) : received;
    const { again, signal } = reached;
    let stopWaiting = () => {};
    const abort = () => {
      stopWaiting();
      end(socket);
    };
    const timeoutMs = this.#options.greetingTimeoutMs ?? GREETING_TIMEOUT_MS;
    const answers: AnswersOutcome = {
      answered(all) {
        signal?.removeEventListener('abort', abort);
        introduced({ socket, greeting }, all, reached, outcome);
      },
      failed(error) {
        signal?.removeEventListener('abort', abort);
        end(socket);
        if (error.code === 'AGENT_CLOSED' && again) again();
        else outcome.failed(error);
      },
    };
    if (socket.writable) writeNow(socket, INTRODUCTION.bytes.subarray(taken));
    signal?.addEventListener('abort', abort);
    stopWaiting = awaitAnswers(socket, INTRODUCTION.count, timeoutMs, answers, {
      hurry: answersInPieces(socket),
      received: received.subarray(greeting.length),
    });
  }

  /** Where the extra socket is. */
  socketPath(): Promise<string> {
    if (this.#options.socketPath) return Promise.resolve(this.#options.socketPath);
    return this.#path.get();
  }

  /** The identities of the agent's main and extra sockets, which hold in a target that mounts them, too. */
  async identities(): Promise<SocketIdentity[]> {
    const paths = await Promise.all([listDir('agent-socket', this.#options), this.socketPath()]);
    const identities = await Promise.all(paths.map(tellableIdentity));
    return identities.filter((identity) => identity !== undefined);
  }

  async #connect(): Promise<AgentConnection> {
    if (!this.#stale) {
      const outcome = await this.#attempt(false);
      if (!(outcome instanceof BridgeError)) return outcome;
      if (!NO_AGENT_CODES.includes(outcome.code)) throw outcome;
    }
    await this.#launched();
    const outcome = await this.#attempt(true);
    if (!(outcome instanceof BridgeError)) return outcome;
    throw outcome.code === 'AGENT_SOCKET_MISSING' ? missing(await this.socketPath(), outcome) : outcome;
  }

  async #attempt(waitForStart: boolean): Promise<AgentConnection | BridgeError> {
    const { connectTimeoutMs: timeoutMs, env, platform, socketFactory, fileSystem } = this.#options;
    const options = { waitForStart, timeoutMs, env, platform, socketFactory, fileSystem };
    const path = await this.socketPath();
    try {
      return this.#watchNonce(await connectToAgent(path, options));
    } catch (error) {
      if (error instanceof BridgeError) return error;
      throw error;
    }
  }

  #watchNonce(connection: AgentConnection): AgentConnection {
    if (connection.preamble.length === 0) return connection;
    const earlyCloseError = (cause?: unknown) => {
      this.#stale = true;
      return connection.earlyCloseError(cause);
    };
    return { ...connection, earlyCloseError };
  }

  #createSocket(options: NetConnectOpts): Socket {
    const { socketFactory } = this.#options;
    if (socketFactory) return socketFactory(options);
    const socket = this.#spare ?? new ViewSocket();
    this.#spare = undefined;
    return socket.connect(options);
  }

  /** Starts the agent; connections that miss it at the same time share one start. */
  #launched(): Promise<void> {
    this.#launching ??= this.#launch().finally(() => {
      this.#launching = undefined;
    });
    return this.#launching;
  }

  async #launch(): Promise<void> {
    this.#path.forget();
    this.#stale = false;
    this.#log(`no gpg-agent at ${await this.socketPath()}: starting it`, 'info');
    try {
      await launchAgent(this.#options);
    } catch (error) {
      // A path that was given may belong to an agent that gpgconf knows nothing of.
      if (!this.#options.socketPath) throw error;
      this.#log(`the agent was not started: ${error instanceof Error ? error.message : error}`, 'warn');
    }
  }

  /** A connection with the stamp of the socket that it was made to: the same before and after. */
  async #connectStamped(): Promise<{ connection: AgentConnection; stamp: string | undefined }> {
    let socketPath = await this.socketPath();
    let before = changeStamp(socketPath);
    for (let attempt = 1; attempt <= MOST_CHECKS; attempt++) {
      const connection = await this.#connect();
      const stamp = changeStamp(connection.socketPath);
      if (connection.socketPath === socketPath && stamp === before) return { connection, stamp };
      connection.socket.destroy();
      ({ socketPath } = connection);
      before = stamp;
    }
    throw restartedAgain(socketPath);
  }

  async #checkRestricted(): Promise<void> {
    const { connection, stamp } = await this.#connectStamped();
    const { socket, path, preamble, earlyCloseError } = connection;
    const timeoutMs = this.#options.greetingTimeoutMs ?? GREETING_TIMEOUT_MS;
    try {
      if (preamble.length > 0) socket.write(preamble);
      const { responses } = await ask(socket, ['GETINFO restricted'], { timeoutMs, earlyCloseError });
      if (responses[0]?.word !== 'OK') throw notRestricted(path);
      this.#checked = { path, stamp };
      this.#log(`gpg-agent at ${path} is restricted, as it should be`, 'debug');
    } finally {
      socket.destroy();
    }
  }
}

/** The first questions of every connection, and those of whoever opens it. */
function questionsWith(more: FirstQuestions | undefined): FirstQuestions {
  if (!more || more.count === 0) return INTRODUCTION;
  return {
    bytes: Buffer.concat([INTRODUCTION.bytes, more.bytes]),
    count: INTRODUCTION.count + more.count,
  };
}

/** Every connection begins with questions of our own: whether it is a restricted one, and to which agent. */
function introduced(
  { socket, greeting }: OpenedAgent,
  [restricted, version, ...answers]: readonly Block[],
  { path, stamp }: Reached,
  outcome: OpenOutcome,
): void {
  if (restricted?.word !== 'OK') {
    end(socket);
    outcome.failed(notRestricted(path));
    return;
  }
  const identity = { version: version?.bytes.toString('latin1') ?? '', socket: `${path} ${stamp}` };
  outcome.opened({ socket, greeting, answers, identity });
}

/** Ends a connection; a late error has nobody left to tell. */
function end(socket: Socket): void {
  socket.on('error', () => {}).destroy();
}

function restartedAgain(path: string): BridgeError {
  return new BridgeError('AGENT_UNREACHABLE', {
    what: `gpg-agent at ${path} is not used`,
    why: `its socket was replaced ${MOST_CHECKS} times while it was checked`,
    fix: 'See what starts gpg-agent again and again, and try again.',
  });
}

function missing(path: string, cause: BridgeError): BridgeError {
  return new BridgeError('AGENT_SOCKET_MISSING', {
    what: `gpg-agent's extra socket is missing at ${path}`,
    why: 'gpg-agent runs but did not make it; gpg-agent.conf may have `extra-socket none` or another path, which gpgconf does not tell',
    fix: 'Remove the extra-socket line from gpg-agent.conf, run `gpgconf --kill gpg-agent`, and try again.',
    cause,
  });
}

function notRestricted(path: string): BridgeError {
  return new BridgeError('AGENT_NOT_RESTRICTED', {
    what: `the socket ${path} is not bridged`,
    why: "it is not gpg-agent's restricted (extra) socket, so a target could export keys through it",
    fix: 'Use the socket that `gpgconf --list-dirs agent-extra-socket` names.',
  });
}
