import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { tableOf } from '@gpg-bridge/core/assuan/answer-table';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { PROTOCOL_VERSION } from '@gpg-bridge/core/mux/frame';
import type { Carrier } from '@gpg-bridge/core/mux/muxer';
import { type Outlets, pipeSocket } from '@gpg-bridge/core/mux/pipe';
import { TargetMuxer } from '@gpg-bridge/core/mux/target-muxer';
import { answerAhead } from '@gpg-bridge/core/remote/answer-ahead';
import { answerBinds } from '@gpg-bridge/core/remote/answer-binds';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { AheadTable } from '@gpg-bridge/core/remote/told-lines';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { type BindEntry, bindOf } from '@gpg-bridge/core/ssh/told-binds';
import type { ServerConfig } from '../launch/config.ts';
import { type Answer, type CallContext, carryOut } from './calls.ts';

const FLUSH_MS = 1_000;
/** How long clients may take to leave that were told that the bridge has ended. */
const LEAVING_MS = 1_000;
const LF = 10;
/** Clients that may wait while there are too many. */
const MAX_WAITING = 4_096;

/** A target's end that tells the host why it broke. */
class ServerMuxer extends TargetMuxer {
  protected override end(error: BridgeError | undefined): void {
    if (error && error.code !== 'TARGET_CLOSED' && !this.closed) this.error(error.message);
    super.end(error);
  }
}

/** The socket server on Node: the protocol and the operations of the core, joined. */
export class SocketServer {
  readonly #muxer: ServerMuxer;
  readonly #operations: DirectOperations;
  readonly #context: CallContext;
  /** What is answered ahead. */
  readonly #table = new AheadTable(() => this.#muxer.isOverdue);
  /** What clients of the ssh-agent are answered ahead. */
  readonly #binds = {
    entry: undefined as BindEntry | undefined,
    isOverdue: () => this.#muxer.isOverdue,
  };
  /** Clients that came while there were too many: they have their turn later. */
  readonly #waiting: { socket: Socket; type: SocketType }[] = [];
  /** Clients that were told that the bridge has ended, and have not left. */
  readonly #leaving = new Set<Socket>();
  #end!: (status: number) => void;
  #stopping: Promise<void> | undefined;

  constructor(
    private readonly config: ServerConfig,
    private readonly carrier: Carrier,
    private readonly log: (text: string) => void,
  ) {
    this.#muxer = new ServerMuxer(carrier, {
      maxStreams: config.maxStreams,
      heartbeat: config,
      trace: config.trace ? (...frame) => this.log(`frame ${frame.join(' ')}`) : undefined,
    });
    this.#operations = new DirectOperations({
      onConnection: (socket, type) => this.#onClient(socket, type),
      allowHalfOpen: true,
      log: (text, level) => {
        if (level === 'warn' || level === 'error') this.log(text);
      },
    });
    this.#context = {
      operations: this.#operations,
      input: [],
      lastWords: new Map(),
      onReplaced: (type) => this.#muxer.changed(type),
    };
  }

  /** Serves until the host or a signal ends it; resolves to the exit status. */
  start(): Promise<number> {
    const ended = new Promise<number>((resolve) => {
      this.#end = resolve;
    });
    this.#muxer.on('input', (bytes) => this.#context.input.push(bytes));
    this.#muxer.on('call', (fields, answer) => this.#onCall(fields, answer));
    this.#muxer.on('table', (fields, type) => {
      if (type === 'gpg-agent') this.#table.set(tableOf(fields));
      else if (type === 'ssh-agent') this.#binds.entry = bindOf(fields);
    });
    this.#muxer.on('room', () => this.#openNext());
    this.#muxer.on('close', (error) => void this.stop(error?.code === 'TARGET_CLOSED' ? 0 : 1));
    if (this.config.protocol === PROTOCOL_VERSION) {
      this.#muxer.ready({ runtime: 'node', ...this.#operations.facts });
    } else {
      this.#muxer.error(
        `the host speaks version ${this.config.protocol} of the protocol, this server ${PROTOCOL_VERSION}`,
      );
      void this.stop(1);
    }
    return ended;
  }

  /** Removes what is ours and ends. */
  stop(status: number): Promise<void> {
    this.#stopping ??= this.#cleanUp().then(() => this.#end(status));
    return this.#stopping;
  }

  async #onCall(fields: Buffer[], answer: (fields: Answer) => void): Promise<void> {
    answer(
      await carryOut(this.#context, fields).catch((error: NodeJS.ErrnoException): Answer => {
        // Of the core's own errors only a missing program can come here.
        if (error instanceof BridgeError) return ['ENOENT', error.message];
        return [error.code ?? 'EINVAL', error.message];
      }),
    );
  }

  #onClient(socket: Socket, type: SocketType): void {
    socket.on('error', () => {}); // shows as a close
    if (this.#waiting.length >= MAX_WAITING) {
      socket.destroy();
      return;
    }
    this.#waiting.push({ socket, type });
    this.#openNext();
  }

  #openNext(): void {
    while (this.#waiting.length > 0 && !this.#muxer.closed && this.#muxer.hasRoom) {
      const { socket, type } = this.#waiting.shift()!;
      const onStreamEnd = ({ lastByte }: Outlets) =>
        this.#muxer.closed && this.#takeLeave(socket, type, lastByte);
      if (type === 'gpg-agent' && this.#table.isOn) {
        answerAhead(this.#muxer.open(type, { greeted: true }), socket, this.#table, onStreamEnd);
      } else if (type === 'ssh-agent' && this.#binds.entry) {
        answerBinds(this.#muxer.open(type), socket, this.#binds, onStreamEnd);
      } else {
        pipeSocket(this.#muxer.open(type), socket, { onStreamEnd });
      }
    }
  }

  /** Tells a client that the bridge has ended: between two lines, behind a greeting if it had none. */
  #takeLeave(socket: Socket, type: SocketType, lastByte?: number): boolean {
    const { greeting, refusal } = this.#context.lastWords.get(type)!;
    this.#leaving.add(socket);
    socket.once('close', () => this.#leaving.delete(socket)).resume();
    if (lastByte === undefined) socket.end(Buffer.concat([greeting, refusal]));
    else socket.end(lastByte === LF ? refusal : '');
    return true;
  }

  async #cleanUp(): Promise<void> {
    try {
      await this.#operations.close();
    } catch (error) {
      this.log(toBridgeError(error, "can't clean up").message);
    }
    this.#muxer.close();
    for (const { socket, type } of this.#waiting.splice(0)) this.#takeLeave(socket, type);
    await Promise.all([this.#flushed(), this.#left()]);
  }

  #flushed(): Promise<unknown> {
    const { output } = this.carrier;
    if (output.writableFinished || output.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      output.once('finish', resolve).once('close', resolve);
      setTimeout(resolve, FLUSH_MS); // a host that does not read keeps nothing alive
    });
  }

  /** What a client that has not left still writes is read: else its answer would be an error of its own. */
  #left(): Promise<unknown> {
    const closed = [...this.#leaving].map((socket) => new Promise((done) => socket.once('close', done)));
    return Promise.race([Promise.all(closed), delay(LEAVING_MS)]);
  }
}
