import { randomUUID } from 'node:crypto';
import type { AheadReply, ToldBlock } from '../assuan/answer-table.ts';
import type { Operation } from '../assuan/operation.ts';
import { BridgeError } from '../errors.ts';
import type { KeyFilter } from '../gnupg/key-filter.ts';
import { type LogCallback, noLog } from '../log.ts';
import { SessionTrace } from '../machine/session-trace.ts';
import { AgentSession } from './agent-session.ts';
import { AheadExchange } from './ahead-exchange.ts';
import { AnswersAhead } from './answers-ahead.ts';
import type { AgentConnection } from './connect.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { HostGpgAgent, type HostGpgAgentOptions } from './gpg-agent.ts';
import { type TargetUse, unrecordedUse } from './key-use-attempt.ts';
import { KeyUseRules } from './key-use-rules.ts';
import { learnUsual } from './learn-usual.ts';
import { type OpenAgent, openAgent } from './open-agent.ts';
import { exportPublicKeys } from './public-keys.ts';

/** How an AgentProxy is set up; everything has a default. */
export interface AgentProxyConfig extends Omit<HostGpgAgentOptions, 'log'> {
  logCallback?: LogCallback;
  /** Whether every state of a session is logged, asked when it begins; not unless said. */
  isTracing?: () => boolean;
  /** Sessions open at once; 512 unless said. */
  maxSessions?: number;
  /** Bytes of one response; 64 MiB unless said. */
  maxResponseBytes?: number;
  /** How long a BYE may stay unanswered; 5 s unless said. */
  byeTimeoutMs?: number;
  /** What the remote may use keys for, and where that is recorded; everything, and nowhere, if not given. */
  use?: TargetUse;
  /** Whether targets may answer ahead of the agent, asked each time; they may unless said. */
  ahead?: (() => boolean) | undefined;
  /** Told of every finished command: its word, key, outcome and duration; never of payload. */
  onOperation?: (sessionId: string, operation: Operation) => void;
}

/** What a test may put in place of the real thing. */
export interface AgentProxyDeps {
  connect?: () => Promise<AgentConnection>;
}

/** The first command of a client, with the lines ahead of it that were answered; none before there is a table. */
export interface FirstBlock extends ToldBlock {
  readonly block?: string | undefined;
}

/** A session that was opened. */
export interface OpenedSession {
  sessionId: string;
  greeting: string;
  /** The response to the first command, if one was sent along. */
  response?: string;
  ahead?: AheadReply;
}

const NOTHING_TOLD: ToldBlock = { table: 0, told: [], lines: '' };
const MAX_SESSIONS = 512;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
const BYE_TIMEOUT_MS = 5_000;

/**
 * The host's side of the VS Code carrier: sessions with the host's gpg-agent, each by its id. Blocks and
 * responses are latin1 strings, one character a byte, since VS Code commands carry strings.
 */
export class AgentProxy {
  readonly #config: AgentProxyConfig;
  readonly #log: LogCallback;
  readonly #openAgent: OpenAgent;
  #learning: Promise<void> | undefined;
  readonly #sessions = new Map<string, AgentSession>();
  readonly #connections = new ConnectionLimit();
  /** How often every session was ended. */
  #stops = 0;
  readonly #use: TargetUse;
  /** What targets may answer ahead; undefined: nothing. */
  readonly #answers: AnswersAhead | undefined;
  readonly #exchanges = new WeakMap<AgentSession, AheadExchange>();

  constructor(config: AgentProxyConfig = {}, deps: AgentProxyDeps = {}) {
    this.#config = config;
    this.#log = config.logCallback ?? noLog;
    this.#use = config.use ?? unrecordedUse();
    const agent = new HostGpgAgent({ ...config, log: this.#log });
    const { connect } = deps;
    const { greetingTimeoutMs } = config;
    // Without an agent of our own to ask there is nothing to learn.
    if (!connect) {
      const narrowed = config.use?.grant?.keygrips !== undefined;
      this.#answers = new AnswersAhead({ log: this.#log, narrowed });
    }
    this.#openAgent = connect
      ? (outcome, signal) => openAgent(connect, outcome, { greetingTimeoutMs, log: this.#log, signal })
      : (outcome, signal) => agent.open(outcome, signal);
  }

  /**
   * Opens a session and returns its id with the agent's greeting. A target that answers ahead may send its first
   * command along, and gets the response to it.
   */
  async connectAgent(first?: FirstBlock): Promise<OpenedSession> {
    checkBytes(first?.block, first?.lines);
    const limit = this.#config.maxSessions ?? MAX_SESSIONS;
    if (this.#sessions.size >= limit) {
      throw new BridgeError('SESSION_LIMIT', {
        what: "can't open another session",
        why: `${limit} are open already, which is the limit`,
        fix: 'Wait for some of them to end.',
      });
    }
    const sessionId = randomUUID();
    let leave = () => {};
    const trace = this.#config.isTracing?.()
      ? new SessionTrace(`session ${sessionId}`, 'asked for by the target', this.#log)
      : undefined;
    const session = new AgentSession({
      id: sessionId,
      openAgent: this.#openAgent,
      byeTimeoutMs: this.#config.byeTimeoutMs ?? BYE_TIMEOUT_MS,
      maxResponseBytes: this.#config.maxResponseBytes ?? MAX_RESPONSE_BYTES,
      rules: new KeyUseRules(
        this.#use,
        (operation) => {
          trace?.answered(operation);
          this.#config.onOperation?.(sessionId, operation);
        },
        sessionId,
      ),
      log: this.#log,
      trace,
      mayHurry: first !== undefined && this.#answers !== undefined && (this.#config.ahead?.() ?? true),
      onIdentity: (identity, greeting) => {
        if (this.#answers?.connected(identity, greeting.toString('latin1'))) this.#learn(this.#answers);
      },
      onEnded: () => {
        this.#sessions.delete(sessionId);
        leave();
        if (trace) trace.ended();
        else this.#log(`session ${sessionId}: ended`, 'debug');
      },
    });
    this.#sessions.set(sessionId, session);
    const stops = this.#stops;
    leave = await new Promise<() => void>((begin) => this.#connections.enter(begin));
    if (stops !== this.#stops) {
      this.#sessions.delete(sessionId);
      leave();
      throw stopped();
    }
    this.#log(`session ${sessionId}: connecting`, 'debug');
    const greeting = (await session.open()).toString('latin1');
    this.#use.usages?.prepare();
    await this.#learning;
    if (!first || !this.#answers) return { sessionId, greeting };
    const exchange = new AheadExchange(session, this.#answers, this.#config.ahead ?? (() => true));
    this.#exchanges.set(session, exchange);
    if (first.block === undefined) return { sessionId, greeting, ahead: exchange.reply(first.table) };
    try {
      const { response, ahead } = await exchange.send(first.block, first);
      return { sessionId, greeting, response: response.toString('latin1'), ahead };
    } catch (error) {
      void session.close(); // nobody else knows of it
      throw error;
    }
  }

  /**
   * Sends one command or inquiry block and returns the whole response to it; `told` are the lines ahead of it that
   * the target has answered.
   */
  async sendCommands(
    sessionId: string,
    block: string,
    told?: ToldBlock,
  ): Promise<{ response: string; ahead?: AheadReply }> {
    checkBytes(block, told?.lines);
    const session = this.#session(sessionId);
    const exchange = this.#exchanges.get(session);
    if (!exchange) return { response: (await session.send(block)).toString('latin1') };
    const { response, ahead } = await exchange.send(block, told ?? NOTHING_TOLD);
    return { response: response.toString('latin1'), ...(told ? { ahead } : {}) };
  }

  /** Sessions wait until the usual questions of another agent are answered, so that their targets have the answers. */
  #learn(answers: AnswersAhead): void {
    this.#learning = learnUsual({ open: this.#openAgent }, answers, this.#log);
  }

  /** Ends a session: with BYE when the agent is listening, at once when it is not. */
  async disconnectAgent(sessionId: string): Promise<void> {
    await this.#session(sessionId).close();
  }

  /** The host's public keys that `filter` asks for, in base64, with those that deserve ultimate trust. */
  async exportPublicKeys(filter: KeyFilter): Promise<{ keys: string; trust: string[]; count: number }> {
    const { keys, trust, count } = await exportPublicKeys(filter, this.#config);
    return { keys: keys.toString('base64'), trust, count };
  }

  /** Ends every session. */
  async stop(): Promise<void> {
    this.#stops++;
    await Promise.all([...this.#sessions.values()].map((session) => session.close()));
  }

  #session(sessionId: string): AgentSession {
    const session = this.#sessions.get(sessionId);
    if (session) return session;
    throw new BridgeError('SESSION_UNKNOWN', {
      what: `there is no session ${sessionId}`,
      why: "it has ended, or the host's gpg-agent closed it",
      fix: 'Start the command again.',
    });
  }
}

function stopped(): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: "can't open another session",
    why: 'the bridge was stopped while it waited for a connection to gpg-agent',
    fix: 'Start the command again.',
  });
}

/** Text is a byte a character. Any other character would be cut to a byte: one line to the rules, another to the agent. */
function checkBytes(...texts: readonly (string | undefined)[]): void {
  for (const text of texts) {
    if (text === undefined || !/[^\0-\xff]/.test(text)) continue;
    throw new BridgeError('BLOCK_INCOMPLETE', {
      what: "the block can't be sent to the host's gpg-agent",
      why: 'it has a character that is not a byte',
      fix: 'Send one character for each byte.',
    });
  }
}
