import type { Socket } from 'node:net';
import { type Block, type BlockKind, BlockScanner } from '../assuan/block-scanner.ts';
import { unavailableGreeting } from '../assuan/unavailable-agent.ts';
import { BridgeError, toBridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { writeNow } from '../io/write-now.ts';
import { writeText } from '../io/write-text.ts';
import type { LogCallback } from '../log.ts';
import { REQUEST_TABLE, type RequestEvent, type RequestState } from '../machine/request-table.ts';
import { type EndPayloads, SessionEnd } from '../machine/session-end.ts';
import type { SessionTrace } from '../machine/session-trace.ts';
import { StateMachine } from '../machine/state-machine.ts';
import {
  type AgentChannel,
  errorLine,
  isBye,
  type KeptLines,
  type OpenedChannel,
  turnAfter,
  unavailableChannel,
  unusable,
} from './agent-channel.ts';
import { AheadTable, ToldLines, type Waiting } from './told-lines.ts';

interface Payloads extends EndPayloads {
  CLIENT_SOCKET_CONNECTED: undefined;
  CLIENT_DATA_START: undefined;
  CLIENT_DATA_PARTIAL: undefined;
  CLIENT_DATA_COMPLETE: Block;
  AGENT_RESPONSE_COMPLETE: ClientResponse;
  RESPONSE_OK_OR_ERR: { last: boolean };
  RESPONSE_INQUIRE: { last: boolean };
  AGENT_WRITE_COMPLETE: undefined;
}

/** What the client is sent, and whose turn it is then. */
interface ClientResponse {
  text: string;
  next: 'RESPONSE_OK_OR_ERR' | 'RESPONSE_INQUIRE';
  /** Whether the connection ends with it, as it does after BYE. */
  last: boolean;
}

/** What a session needs from the proxy that accepted its client. */
export interface ClientSessionOptions {
  socket: Socket;
  /** Opens the channel to the host; when that fails the session itself refuses the client's commands. */
  openChannel(): Promise<OpenedChannel>;
  /** What is answered ahead of the host. */
  table?: AheadTable | undefined;
  maxBlockBytes: number;
  log: LogCallback;
  /** Told of every state, if anybody wants to know. */
  trace?: SessionTrace | undefined;
  onEnded(): void;
}

/** Bytes a client may send ahead of its turn before it is made to wait. */
const EARLY_BYTES = 64 * 1024;

/** How long the last bytes may wait for a client that does not read. */
const LAST_WORDS_MS = 1_000;

/** What is being collected in each of the buffering states. */
const COLLECTED: { readonly [state in RequestState]?: BlockKind } = {
  BUFFERING_COMMAND: 'command',
  BUFFERING_INQUIRE: 'inquiry',
};

/** The states in which the client waits for the host: for its greeting, or for a response. */
const HOST_OWES: ReadonlySet<RequestState> = new Set([
  'CONNECTING_TO_AGENT',
  'SENDING_TO_AGENT',
  'WAITING_FOR_AGENT',
]);

/** One client's conversation, driven by REQUEST_TABLE. */
export class ClientSession {
  readonly machine = new StateMachine<RequestState, RequestEvent, Payloads>(REQUEST_TABLE, 'DISCONNECTED');
  readonly #options: ClientSessionOptions;
  readonly #socket: Socket;
  readonly #scanner: BlockScanner;
  readonly #end: SessionEnd;
  readonly #table: AheadTable;
  readonly #lines: ToldLines;
  /** Lines that were answered, and travel with the block that is being read. */
  #kept: KeptLines | undefined;
  #channel: AgentChannel | undefined;

  constructor(options: ClientSessionOptions) {
    this.#options = options;
    this.#socket = options.socket;
    options.trace?.follow(this.machine, {
      CLIENT_DATA_COMPLETE: 'toHost',
      AGENT_RESPONSE_COMPLETE: 'toTarget',
    });
    this.#scanner = new BlockScanner({ maxBlock: options.maxBlockBytes });
    this.#table = options.table ?? new AheadTable();
    this.#lines = new ToldLines(this.#table);
    this.#end = new SessionEnd(this.machine, {
      steps: [
        () => leaveViews(this.#socket, this.#take),
        () => this.#socket.removeAllListeners(),
        () => this.#socket.on('error', () => {}),
        () => this.#closeSocket(),
        () => this.#scanner.clear(),
        () => this.#passOn(),
        () => this.#channel?.close(),
        () => options.onEnded(),
      ],
      ended: (failure) => {
        if (failure) options.log(`client session failed: ${failure.message}`, 'warn');
      },
    });
    this.machine.handle('CLIENT_SOCKET_CONNECTED', () => this.#attach());
    this.machine.handle('AGENT_RESPONSE_COMPLETE', (answer) => this.#answer(answer));
    this.machine.handle('RESPONSE_OK_OR_ERR', ({ last }) => {
      if (last) this.#end.finish();
      else this.#nextBlock('CLIENT_DATA_START');
    });
    this.machine.handle('RESPONSE_INQUIRE', () => this.#nextBlock('CLIENT_DATA_PARTIAL'));
    this.machine.handle('CLIENT_DATA_START', () => this.#scan());
    this.machine.handle('CLIENT_DATA_PARTIAL', () => this.#scan());
    this.machine.handle('CLIENT_DATA_COMPLETE', (block) => this.#ask(block));
    this.machine.handle('CLEANUP_ERROR', (error) => {
      options.log(`client session: cleanup failed: ${toBridgeError(error, 'cleanup').why}`, 'error');
    });
  }

  /** Takes up the conversation. */
  start(): void {
    this.machine.dispatch('CLIENT_SOCKET_CONNECTED', undefined);
  }

  /** Ends it; a client that waits for an answer is told why there will be none. */
  stop(): void {
    if (HOST_OWES.has(this.machine.state)) this.#breakOff(stopped());
    else this.#end.finish();
    this.#socket.destroy();
  }

  #attach(): void {
    let cause: Error | undefined;
    takeViews(this.#socket, this.#take);
    this.#socket.on('end', () => this.#clientEnded());
    this.#socket.on('error', (error) => {
      cause = error; // `close` follows, and decides
    });
    this.#socket.on('close', (hadError) => this.#end.socketClosed(hadError, () => clientBroke(cause)));
    this.#options.openChannel().then(
      ({ channel, greeting }) => this.#greet(channel, greeting),
      // A close or an ERR here would make gpg start an agent of its own over our socket.
      (error: unknown) => {
        const failure = toBridgeError(error, "can't reach the host's gpg-agent");
        this.#options.log(`answering in place of the host's gpg-agent: ${failure.message}`, 'warn');
        this.#greet(unavailableChannel(failure), unavailableGreeting().toString('latin1'));
      },
    );
  }

  #greet(channel: AgentChannel, greeting: string): void {
    if (!this.machine.accepts('AGENT_RESPONSE_COMPLETE')) {
      channel.close(); // the client left while the channel was being opened
      return;
    }
    this.#channel = channel;
    this.machine.dispatch('AGENT_RESPONSE_COMPLETE', {
      text: greeting,
      next: 'RESPONSE_OK_OR_ERR',
      last: false,
    });
  }

  readonly #take = (view: Buffer): void => {
    const isAhead = this.#table.isOn || !this.#lines.isEmpty;
    if (isAhead && this.machine.state === 'READY') this.#answerAhead(view);
    else this.#received(Buffer.from(view));
  };

  /** It is the client's turn: what the table has is answered here, and the state machine sees what waits. */
  #answerAhead(view: Buffer): void {
    const mayAnswer = this.#table.isOn && this.#socket.writableLength === 0;
    const { answers, waiting } = this.#lines.read(view, mayAnswer);
    if (answers !== '') {
      writeNow(this.#socket, Buffer.from(answers, 'latin1'));
      this.#options.trace?.reached(`${answers.length} bytes answered ahead of the host`);
    }
    if (!waiting) return;
    this.#keep(waiting);
    this.#received(waiting.bytes.subarray(waiting.kept));
  }

  #keep({ told, bytes, kept }: Waiting): void {
    if (told.length > 0) this.#kept = { told, lines: bytes.toString('latin1', 0, kept) };
  }

  /** Every command reaches the agent, also those of a client that has gone. */
  #passOn(): void {
    const waiting = this.#lines.release();
    if (waiting) this.#keep(waiting);
    if (this.#kept) this.#channel?.passOn?.(this.#kept);
    this.#kept = undefined;
  }

  #received(chunk: Buffer): void {
    this.#scanner.push(chunk);
    if (this.machine.state === 'READY') this.machine.dispatch('CLIENT_DATA_START', undefined);
    else if (this.machine.accepts('CLIENT_DATA_PARTIAL'))
      this.machine.dispatch('CLIENT_DATA_PARTIAL', undefined);
    else if (this.#scanner.buffered > EARLY_BYTES) this.#socket.pause();
  }

  /** It is the client's turn: what it sent early is used first. */
  #nextBlock(event: 'CLIENT_DATA_START' | 'CLIENT_DATA_PARTIAL'): void {
    if (this.#scanner.buffered > 0) this.machine.dispatch(event, undefined);
    else if (this.#socket.readableEnded) this.#end.finish();
  }

  #scan(): void {
    try {
      const kind = COLLECTED[this.machine.state];
      const block = kind && this.#scanner.next(kind);
      // A client that was made to wait goes on once there is room, or when its block needs the rest.
      if (this.#socket.isPaused() && (!block || this.#scanner.buffered <= EARLY_BYTES)) this.#socket.resume();
      if (block) this.machine.dispatch('CLIENT_DATA_COMPLETE', block);
      else if (this.#socket.readableEnded) this.#end.finish(); // the rest of the line will never come
    } catch (error) {
      this.#breakOff(toBridgeError(error, "can't read the client's command"));
    }
  }

  #ask(block: Block): void {
    const kept = this.#kept;
    this.#kept = undefined;
    const answer = this.#channel?.send(block, kept);
    this.machine.dispatch('AGENT_WRITE_COMPLETE', undefined);
    answer?.then(
      ({ response, along }) => {
        if (along) this.#lines.sentAlong(along);
        this.#answered(response, isBye(block));
      },
      (error: unknown) => this.#breakOff(toBridgeError(error, "the host's gpg-agent did not answer")),
    );
  }

  #answered(text: string, afterBye: boolean): void {
    if (!this.machine.accepts('AGENT_RESPONSE_COMPLETE')) return; // the client left meanwhile
    const word = turnAfter(text);
    if (!word) {
      this.#breakOff(unusable('it does not end in OK, ERR or INQUIRE'));
      return;
    }
    this.machine.dispatch('AGENT_RESPONSE_COMPLETE', {
      text,
      next: word === 'INQUIRE' ? 'RESPONSE_INQUIRE' : 'RESPONSE_OK_OR_ERR',
      last: afterBye && word === 'OK',
    });
  }

  #answer({ text, next, last }: ClientResponse): void {
    writeText(this.#socket, text, (error) => {
      if (!error && this.machine.accepts(next)) this.machine.dispatch(next, { last });
    });
  }

  /** A client that waits is told why before the socket closes. */
  #breakOff(error: BridgeError): void {
    if (!this.#end.hasSocket) return;
    // Without an OK before it, gpg would take the line for a missing agent and start one of its own.
    if (this.machine.state === 'CONNECTING_TO_AGENT') this.#socket.write(unavailableGreeting());
    this.#socket.write(errorLine(error));
    this.#end.fail(error);
  }

  /**
   * The client has sent its last byte. It may still read (`printf … | socat`), or be gone altogether:
   * an empty write shows which, since the kernel refuses even that when the other side is closed.
   */
  #clientEnded(): void {
    if (this.machine.state === 'READY') this.#end.finish();
    else if (COLLECTED[this.machine.state]) this.#scan();
    else if (HOST_OWES.has(this.machine.state)) this.#socket.write('', () => {});
  }

  #closeSocket(): void {
    const socket = this.#socket;
    if (socket.writableLength === 0) {
      socket.destroy(); // the kernel delivers what it has, an error's line too
      return;
    }
    socket.destroySoon();
    const timer = setTimeout(() => socket.destroy(), LAST_WORDS_MS);
    socket.once('close', () => clearTimeout(timer));
  }
}

function stopped(): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: 'the session was ended',
    why: 'the bridge was stopped',
    fix: 'Start the bridge, then the command again.',
  });
}

function clientBroke(cause: Error | undefined): BridgeError {
  return new BridgeError('SESSION_ENDED', {
    what: "the client's connection broke",
    why: cause?.message ?? 'its socket closed with an error',
    fix: 'Start the command again.',
    cause,
  });
}
