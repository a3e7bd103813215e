import type { Socket } from 'node:net';
import { onceOf } from '../assuan/answer-table.ts';
import { decodeFields } from '../mux/fields.ts';
import { type Outlets, type PipeHooks, pipeSocket } from '../mux/pipe.ts';
import type { MuxStream } from '../mux/stream.ts';
import { type AheadTable, ToldLines, toldPayload, type Waiting } from './told-lines.ts';

/** Joins a client and its stream; as long as it is the client's turn, what the table has is answered here. */
export function answerAhead(
  stream: MuxStream,
  socket: Socket,
  table: AheadTable,
  onStreamEnd?: PipeHooks['onStreamEnd'],
): void {
  const client = new AheadClient(stream, table);
  pipeSocket(stream, socket, onStreamEnd ? Object.assign(client, { onStreamEnd }) : client);
}

/** One client, and what the host has been sent of it. */
export class AheadClient implements PipeHooks {
  readonly #stream: Pick<MuxStream, 'takeNotes'>;
  readonly #table: AheadTable;
  readonly #greeting: Buffer;
  readonly #lines: ToldLines;
  /** Nothing is owed to the client: its lines are read here, and not passed on as they come. */
  #isAhead = true;
  /** Bytes that went to the host. */
  #sent = 0;

  constructor(stream: Pick<MuxStream, 'takeNotes'>, table: AheadTable) {
    this.#stream = stream;
    this.#table = table;
    this.#greeting = Buffer.from(table.greeting, 'latin1');
    this.#lines = new ToldLines(table);
  }

  onStart(out: Outlets): void {
    out.toSocket(this.#greeting);
  }

  fromSocket(bytes: Buffer, out: Outlets): void {
    if (!this.#isAhead) this.#readTurns();
    if (!this.#isAhead) {
      this.#sent += bytes.length;
      out.toStream(bytes);
      return;
    }
    const { answers, waiting } = this.#lines.read(bytes, !out.socketBusy && this.#table.isOn);
    if (answers !== '') out.toSocket(Buffer.from(answers, 'latin1'));
    if (waiting) this.#pass(waiting, out);
  }

  onLastByte(out: Outlets): void {
    this.#passKept(out);
  }

  onSocketEnd(_error: Error | undefined, out: Outlets): void {
    this.#passKept(out);
  }

  /** Every command reaches the agent, also those of a client that has gone. */
  #passKept(out: Outlets): void {
    const waiting = this.#isAhead ? this.#lines.release() : undefined;
    if (waiting) this.#pass(waiting, out);
  }

  #pass({ told, bytes }: Waiting, out: Outlets): void {
    this.#isAhead = false;
    this.#sent += bytes.length;
    if (told.length > 0) out.toStreamNoted(toldPayload(told), bytes);
    else out.toStream(bytes);
  }

  /** It is the client's turn again if the host has answered everything that was sent. */
  #readTurns(): void {
    const turns = this.#stream.takeNotes();
    if (!turns) return;
    for (const turn of turns) {
      if (turn.length < 4) continue;
      this.#lines.sentAlong(onceOf(decodeFields(turn.subarray(4)) ?? []));
      this.#isAhead = turn.readUInt32BE(0) === this.#sent % 2 ** 32;
    }
  }
}
