import type { Socket } from 'node:net';
import { type Outlets, type PipeHooks, pipeSocket } from '../mux/pipe.ts';
import type { MuxStream } from '../mux/stream.ts';
import type { BindEntry } from '../ssh/told-binds.ts';
import { toldPayload } from './told-lines.ts';

/** What a target's end answers clients of the ssh-agent at the moment. */
export interface BindTable {
  readonly entry: BindEntry | undefined;
  /** The host has not answered for a while: then nothing is answered in its place. */
  isOverdue(): boolean;
}

/** Bytes of a message that is answered here, and of those that were; anything longer waits. */
const MAX_KEPT_BYTES = 8_192;
const LENGTH_BYTES = 4;
const NOTHING = Buffer.alloc(0);

/** Joins a client and its stream; the binds that it begins with are answered here, and go with what follows them. */
export function answerBinds(
  stream: MuxStream,
  socket: Socket,
  table: BindTable,
  onStreamEnd?: PipeHooks['onStreamEnd'],
): void {
  const client = new BindingClient(table);
  pipeSocket(stream, socket, onStreamEnd ? Object.assign(client, { onStreamEnd }) : client);
}

/** One client of the ssh-agent. */
export class BindingClient implements PipeHooks {
  readonly #table: BindTable;
  /** The client has sent nothing but binds that were answered here. */
  #isAhead = true;
  #told: number[] = [];
  /** Messages that were answered. */
  #kept: Buffer[] = [];
  #keptBytes = 0;
  /** The beginning of a message. */
  #begun: Buffer = NOTHING;

  constructor(table: BindTable) {
    this.#table = table;
  }

  fromSocket(bytes: Buffer, out: Outlets): void {
    if (!this.#isAhead) {
      out.toStream(bytes);
      return;
    }
    this.#begun = Buffer.concat([this.#begun, bytes]);
    for (let size: number; (size = this.#nextSize()) > 0; ) {
      const entry = this.#table.entry;
      const mayAnswer =
        !out.socketBusy && !this.#table.isOverdue() && Math.max(this.#keptBytes + 1, size) <= MAX_KEPT_BYTES;
      const message = this.#begun.subarray(0, size);
      if (!entry || !mayAnswer || !begins(message, entry.begins)) {
        this.#passKept(out);
        return;
      }
      out.toSocket(entry.answer);
      this.#told.push(entry.id);
      this.#kept.push(message);
      this.#keptBytes += size;
      this.#begun = this.#begun.subarray(size);
    }
  }

  onLastByte(out: Outlets): void {
    this.#passKept(out);
  }

  onSocketEnd(_error: Error | undefined, out: Outlets): void {
    this.#passKept(out);
  }

  /** Bytes of the first message that has begun, if it is whole or too long; else 0. */
  #nextSize(): number {
    if (this.#begun.length < LENGTH_BYTES) return 0;
    const size = LENGTH_BYTES + this.#begun.readUInt32BE(0);
    return size > MAX_KEPT_BYTES || size <= this.#begun.length ? size : 0;
  }

  /** Everything goes to the host from now on, and first what was kept. */
  #passKept(out: Outlets): void {
    if (!this.#isAhead) return;
    this.#isAhead = false;
    const bytes = Buffer.concat([...this.#kept, this.#begun]);
    const told = this.#told;
    this.#kept = [];
    this.#told = [];
    this.#begun = NOTHING;
    if (bytes.length === 0) return;
    if (told.length > 0) out.toStreamNoted(toldPayload(told), bytes);
    else out.toStream(bytes);
  }
}

function begins(message: Buffer, start: Buffer): boolean {
  return message.subarray(LENGTH_BYTES, LENGTH_BYTES + start.length).equals(start);
}
