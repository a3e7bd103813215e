import type { Socket } from 'node:net';
import { type Block, type BlockKind, BlockScanner } from '../assuan/block-scanner.ts';
import { CommandGate, type GateRules } from '../assuan/command-gate.ts';
import { isOneBlock } from '../assuan/one-block.ts';
import { BYE_ANSWER } from '../assuan/unavailable-agent.ts';
import { BridgeError, type ErrorCode, toBridgeError } from '../errors.ts';
import { takeViews } from '../io/view-source.ts';
import { writeNow } from '../io/write-now.ts';
import { inPieces, type TextTaken } from '../io/write-text.ts';
import type { LogCallback } from '../log.ts';
import { AGENT_TABLE, type AgentEvent, type AgentState } from '../machine/agent-table.ts';
import { type EndPayloads, SessionEnd } from '../machine/session-end.ts';
import type { SessionTrace } from '../machine/session-trace.ts';
import { StateMachine } from '../machine/state-machine.ts';
import { Attempt } from './giving-up.ts';
import { type AgentIdentity, answersInPieces, type OpenAgent, type OpenedAgent } from './open-agent.ts';

interface Payloads extends EndPayloads {
  CLIENT_CONNECT_REQUESTED: undefined;
  CLIENT_DATA_RECEIVED: string;
  AGENT_SOCKET_CONNECTED: OpenedAgent;
  AGENT_WRITE_OK: undefined;
  AGENT_DATA_CHUNK: undefined;
  AGENT_DATA_RECEIVED: Block;
}

/** What the agent owes: the first line (its greeting) or a response, and whom to tell. */
interface Owed {
  kind: BlockKind;
  /** Whether it was asked for with BYE, to which the end of the connection is as good as an answer. */
  afterBye: boolean;
  resolve(answer: Buffer): void;
  reject(error: BridgeError): void;
}

/** What a session needs from the proxy that holds it. */
export interface AgentSessionOptions {
  id: string;
  /** Opens the connection; the session gives up by aborting. */
  openAgent: OpenAgent;
  /** How long a BYE may stay unanswered before the socket is ended without it. */
  byeTimeoutMs: number;
  maxResponseBytes: number;
  /** What decides about its commands, and is told of them. */
  rules: GateRules;
  log: LogCallback;
  /** Told of every state, if anybody wants to know. */
  trace?: SessionTrace | undefined;
  /** Whether an agent whose answers come in pieces may be hurried, see `CommandGate.hurry`; no unless said. */
  mayHurry?: boolean;
  /** Told which agent it was connected to, where that is known. */
  onIdentity?(identity: AgentIdentity, greeting: Buffer): void;
  /** Called once the session is over, before anybody who waits on it is told. */
  onEnded(): void;
}

/** A use of a key that was left counts as long as this: the agent may have a prompt on the screen. */
const LEFT_USE_MS = 60_000;
const BYE = 'BYE\n';
/** gpg-agent takes commands in either case, and a BYE with arguments. */
const BYE_LINE = /^bye[ \t\r\n]/i;
/** Ends of a session that count as an answer to BYE: the agent closed it, or the caller did. */
const ENDS_OF_BYE: ReadonlySet<ErrorCode> = new Set(['AGENT_CLOSED', 'SESSION_ENDED']);

/** One conversation with the host's gpg-agent, driven by AGENT_TABLE. */
export class AgentSession {
  readonly machine = new StateMachine<AgentState, AgentEvent, Payloads>(AGENT_TABLE, 'DISCONNECTED');
  readonly #options: AgentSessionOptions;
  readonly #scanner: BlockScanner;
  readonly #gate: CommandGate;
  readonly #end: SessionEnd;
  readonly #opening = new Attempt();
  #socket: Socket | undefined;
  #owed: Owed | undefined;
  #expected: 'command' | 'inquiry' = 'command';
  #byeTimer: NodeJS.Timeout | undefined;
  /** The rest of a block, which goes on when the agent's socket has taken what it was given. */
  #next: TextTaken | undefined;
  #isReceiving = false;

  constructor(options: AgentSessionOptions) {
    this.#options = options;
    options.trace?.follow(this.machine, { CLIENT_DATA_RECEIVED: 'toHost', AGENT_DATA_RECEIVED: 'toTarget' });
    this.#scanner = new BlockScanner({ maxBlock: options.maxResponseBytes });
    this.#gate = new CommandGate(options.rules, {
      toAgent: (bytes) => this.#toAgent(bytes),
      toClient: (bytes) => this.#answered(bytes),
      endAgent: () => {},
      resume: () => {},
      broken: (error) => this.#end.fail(error),
    });
    this.#end = new SessionEnd(this.machine, {
      steps: [
        () => clearTimeout(this.#byeTimer),
        () => this.#opening.abort(),
        () => this.#socket?.removeAllListeners(),
        // A late error of a destroyed socket has nobody left to tell.
        () => this.#socket?.on('error', () => {}),
        () => this.#socket?.destroy(),
        () => this.#scanner.clear(),
        () => this.#leaveGate(),
        () => options.onEnded(),
      ],
      ended: (failure) => {
        if (this.#owed) this.#giveUp(failure ?? agentClosed());
        else if (failure) options.log(`session ${options.id}: ${failure.message}`, 'warn');
      },
    });
    this.machine.handle('CLIENT_CONNECT_REQUESTED', () => this.#connect());
    this.machine.handle('AGENT_SOCKET_CONNECTED', (opened) => this.#attach(opened));
    this.machine.handle('CLIENT_DATA_RECEIVED', (text) => this.#write(text));
    this.machine.handle('AGENT_WRITE_OK', () => this.#takeBuffered());
    this.machine.handle('AGENT_DATA_CHUNK', () => this.#scan());
    this.machine.handle('AGENT_DATA_RECEIVED', (block) => this.#settle(block));
    this.machine.handle('CLEANUP_ERROR', (error) => {
      options.log(`session ${options.id}: cleanup failed: ${toBridgeError(error, 'cleanup').why}`, 'error');
    });
  }

  /** What the client may send next: a command, or the data that the agent asked for. */
  get expected(): 'command' | 'inquiry' {
    return this.#expected;
  }

  /** Connects and resolves with the agent's greeting. */
  open(): Promise<Buffer> {
    return this.#owe('greeting', false, () => this.machine.dispatch('CLIENT_CONNECT_REQUESTED', undefined));
  }

  /** Sends one command or inquiry block, a byte a character, and resolves with the agent's whole response. */
  send(block: string): Promise<Buffer> {
    if (this.machine.state !== 'READY') {
      const error = notReady(this.#options.id, this.machine.state);
      this.#end.fail(error);
      return Promise.reject(error);
    }
    // Without the end of the line the agent would wait for it, and the caller for the agent, for ever.
    if (!block.endsWith('\n')) {
      return Promise.reject(incompleteBlock('it does not end in a line feed'));
    }
    // With several commands in one block it would not be known which of them is being answered.
    if (!isOneBlock(block, this.#expected)) {
      return Promise.reject(incompleteBlock(`it is not one ${this.#expected}`));
    }
    return this.#owe('response', isBye(block), () => this.machine.dispatch('CLIENT_DATA_RECEIVED', block));
  }

  /** Says BYE if the agent is listening, and ends the session; resolves when it is over. */
  async close(): Promise<void> {
    if (this.machine.state === 'READY') {
      this.#byeTimer = setTimeout(() => this.#end.finish(), this.#options.byeTimeoutMs);
      // Whatever comes of the BYE, the session ends below.
      await this.send(BYE).catch(() => {});
    }
    this.#giveUp(disconnected(this.#options.id));
    this.#end.finish();
  }

  #owe(kind: BlockKind, afterBye: boolean, start: () => void): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#owed = { kind, afterBye, resolve, reject };
      start();
    });
  }

  #connect(): void {
    this.#options.openAgent(
      {
        opened: (opened) => this.machine.dispatch('AGENT_SOCKET_CONNECTED', opened),
        failed: (error) => this.#end.fail(error),
      },
      this.#opening,
    );
  }

  #attach({ socket, greeting, identity }: OpenedAgent): void {
    this.#socket = socket;
    this.#gate.hurry = (this.#options.mayHurry ?? false) && answersInPieces(socket);
    if (identity) this.#options.onIdentity?.(identity, greeting);
    let cause: Error | undefined;
    takeViews(socket, (view) => this.#received(view));
    socket.on('error', (error) => {
      cause = error; // `close` follows, and decides
    });
    socket.on('close', (hadError) => {
      this.#gate.end(); // the agent has gone, and does nothing any more
      this.#end.socketClosed(hadError, () => agentClosed(cause));
    });
    // A nonce, if there is one, has been written: nothing is left to say before the greeting.
    this.#isReceiving = true;
    this.#gate.fromAgent(greeting);
    this.#isReceiving = false;
    // More than a greeting ends the session.
    if (this.machine.accepts('CLIENT_DATA_RECEIVED')) this.machine.dispatch('CLIENT_DATA_RECEIVED', '');
  }

  /** Gives the block to the gate, which gives it to the agent when the rules allow it. */
  #write(text: string): void {
    const take = (piece: Buffer, next: TextTaken): boolean => {
      this.#next = next;
      try {
        this.#gate.fromClient(piece);
      } catch (error) {
        this.#end.fail(toBridgeError(error, "can't send to the gpg-agent"));
      }
      const isTaken = this.#next !== undefined;
      this.#next = undefined;
      return isTaken;
    };
    inPieces(text, take, (error) => {
      if (!error && this.machine.accepts('AGENT_WRITE_OK'))
        this.machine.dispatch('AGENT_WRITE_OK', undefined);
    });
  }

  #toAgent(bytes: Buffer): void {
    const next = this.#next;
    // Written in several parts, the last of them tells when there is room again.
    if (!this.#socket || writeNow(this.#socket, bytes, next)) return;
    this.#next = undefined;
  }

  /** Bytes of the agent; what the gate passes of them is looked at as a whole. */
  #received(chunk: Buffer): void {
    this.#isReceiving = true;
    this.#gate.fromAgent(chunk);
    this.#isReceiving = false;
    this.#look();
  }

  /** What the client gets: of the agent, or of the rules. */
  #answered(bytes: Buffer): void {
    this.#scanner.push(Buffer.from(bytes));
    if (!this.#isReceiving) this.#look();
  }

  #look(): void {
    // Bytes that come during a write are scanned after it. In READY nothing is owed, so there they are an error.
    if (this.machine.accepts('AGENT_DATA_CHUNK')) this.machine.dispatch('AGENT_DATA_CHUNK', undefined);
    else if (this.machine.state === 'READY' || this.#scanner.buffered > this.#options.maxResponseBytes)
      this.#end.fail(outOfTurn());
  }

  #takeBuffered(): void {
    if (this.#scanner.buffered > 0) this.machine.dispatch('AGENT_DATA_CHUNK', undefined);
  }

  #scan(): void {
    try {
      const block = this.#owed && this.#scanner.next(this.#owed.kind);
      if (block) this.machine.dispatch('AGENT_DATA_RECEIVED', block);
    } catch (error) {
      this.#end.fail(toBridgeError(error, "can't read the gpg-agent's response"));
    }
  }

  #settle(block: Block): void {
    const owed = this.#owed;
    this.#owed = undefined;
    clearTimeout(this.#byeTimer);
    if (this.#scanner.buffered > 0) {
      const error = outOfTurn();
      owed?.reject(error);
      this.#end.fail(error);
      return;
    }
    this.#expected = block.word === 'INQUIRE' ? 'inquiry' : 'command';
    owed?.resolve(block.bytes);
    // The agent closes now. Until that is seen a caller could send into a closed socket, so the session ends here.
    if (owed?.afterBye && block.word === 'OK') this.#end.finish();
  }

  /** What the agent is still doing for this session, it does for nobody; how long can't be seen any more. */
  #leaveGate(): void {
    const gate = this.#gate;
    if (gate.clientLeft()) setTimeout(() => gate.end(), LEFT_USE_MS).unref();
  }

  /** Rejects the call that waits for an answer, if there is one. */
  #giveUp(error: BridgeError): void {
    const owed = this.#owed;
    this.#owed = undefined;
    if (owed?.afterBye && ENDS_OF_BYE.has(error.code)) owed.resolve(BYE_ANSWER);
    else owed?.reject(error);
  }
}

function agentClosed(cause?: Error): BridgeError {
  return new BridgeError('AGENT_CLOSED', {
    what: "the host's gpg-agent closed the connection",
    why: cause ? cause.message : 'it ended before it answered',
    fix: 'Try again: the next connection starts the agent if need be.',
    cause,
  });
}

/** Whether the last line of a block is a BYE; comments may stand before it. */
function isBye(block: string): boolean {
  const lastLine = block.lastIndexOf('\n', block.length - 2) + 1;
  return BYE_LINE.test(block.substring(lastLine, lastLine + 4));
}

function notReady(id: string, state: AgentState): BridgeError {
  return new BridgeError('SESSION_NOT_READY', {
    what: `session ${id} can't take a command`,
    why: `it is in state ${state}, not READY`,
    fix: 'Wait for the response to one command before sending the next.',
  });
}

function incompleteBlock(why: string): BridgeError {
  return new BridgeError('BLOCK_INCOMPLETE', {
    what: "the block can't be sent to the host's gpg-agent",
    why,
    fix: 'Send one command, or the whole answer to an inquiry, at a time.',
  });
}

function disconnected(id: string): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: `session ${id} was ended`,
    why: "it was disconnected before the host's gpg-agent answered",
    fix: 'Start the command again.',
  });
}

function outOfTurn(): BridgeError {
  return new BridgeError('AGENT_OUT_OF_TURN', {
    what: "the host's gpg-agent spoke out of turn",
    why: 'it sent more than the one response it owed',
    fix: 'Check that the socket really belongs to gpg-agent.',
  });
}
