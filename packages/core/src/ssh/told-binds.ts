import { SESSION_BIND, SSH_AGENT } from './messages.ts';

/** Ids that have come ahead of their messages; OpenSSH's agent takes sixteen binds on a connection. */
const MAX_TOLD = 64;
const LENGTH_ONE = Buffer.of(0, 0, 0, 1);

/**
 * What a target tells a client that binds its session, ahead of the agent: its id, how such a message begins behind
 * its length, and the answer. The answer is what the agent said to the bridge's own bind; an answer's type is its id.
 */
export interface BindEntry {
  readonly id: number;
  readonly begins: Buffer;
  readonly answer: Buffer;
}

/** How a `session-bind` begins: its type, and the name of the extension. */
const BEGINS = Buffer.concat([
  Buffer.of(SSH_AGENT.EXTENSION, 0, 0, 0, SESSION_BIND.length),
  Buffer.from(SESSION_BIND),
]);

/** The fields of a TABLE frame for clients of the ssh-agent; none if nothing is to be told. */
export function bindFields(answerType: number | undefined): Buffer[] {
  if (answerType === undefined) return [];
  return [Buffer.from(String(answerType)), BEGINS, answerOf(answerType)];
}

/** The entry that these fields hold. */
export function bindOf([id, begins, answer]: readonly Buffer[]): BindEntry | undefined {
  return id && begins && answer ? { id: Number(id.toString()), begins, answer } : undefined;
}

/** An answer that is nothing but its type. */
function answerOf(type: number): Buffer {
  return Buffer.concat([LENGTH_ONE, Buffer.of(type)]);
}

/** The binds of one client that its target has answered, compared with what the agent answers. */
export class ToldBinds {
  readonly #ids: number[] = [];
  /** How many of them the agent has not answered. */
  #unanswered = 0;
  #differs = false;

  /** Takes the payload of a TOLD frame: the ids for the client's next messages. */
  add(note: Buffer): void {
    for (let at = 0; at + 4 <= note.length && this.#ids.length < MAX_TOLD; at += 4) {
      this.#ids.push(note.readUInt32BE(at));
    }
  }

  /** What the client was told for its next message, if it was. */
  next(): number | undefined {
    return this.#ids.shift();
  }

  /** Such a message goes to the agent. */
  passed(): void {
    this.#unanswered++;
  }

  /** The agent has answered one; returns whether that is what the client was told. */
  answered(id: number, answer: Buffer): boolean {
    this.#unanswered--;
    const isAsTold = id <= 0xff && answer.equals(answerOf(id));
    if (!isAsTold) this.#differs = true;
    return isAsTold;
  }

  /** A target said that it answered something that none of ours would. */
  notOurs(): void {
    this.#differs = true;
  }

  /** Whether nothing may be signed on this connection, or that is not known yet. */
  get verdict(): 'sign' | 'wait' | 'refuse' {
    if (this.#differs) return 'refuse';
    return this.#unanswered > 0 ? 'wait' : 'sign';
  }
}
