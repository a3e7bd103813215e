import { BridgeError, toBridgeError } from '../errors.ts';
import { CUT_LINE_BYTES, MAX_LINE_BYTES } from './block-scanner.ts';
import { isCancellation } from './error-codes.ts';
import { LineHead } from './line-head.ts';
import type { Operation, Outcome, PendingOperation } from './operation.ts';
import {
  chosenBy,
  commandWord,
  finishedOperation,
  keyNamedIn,
  NAMES_KEY_LENGTH,
  namesKey,
} from './operation.ts';
import { isKeyUse, usesPrivateKey } from './private-key-commands.ts';

/** What decides about commands, and is told what became of them. */
export interface GateRules {
  /**
   * Asked before a command goes to the agent. An answer is given to the client instead; a promise keeps the
   * command back until it resolves. `block` is the command's line with the comments before it, during the call.
   */
  admit?(command: PendingOperation, block: Buffer): Admission | Promise<Admission>;
  /**
   * Asked about a command behind others that the agent has not answered: whether it may go to the agent with them.
   * If not it waits until these are answered, and is asked about with `admit`. One that may is not asked about with `admit`, and passes as it is.
   */
  overlaps?(command: PendingOperation, block: Buffer): boolean;
  /** Asked when the agent inquires: what it is sent in the client's place, which then does not see the inquiry. */
  inquired?(): Buffer | undefined;
  /**
   * Told of a command before its answer leaves for the client; an answer returned here takes its place. `goesOn`: the
   * client has left, and the agent is still at it.
   */
  finished(operation: Operation, goesOn?: boolean): Buffer | undefined;
  /** Told what became of such a command. */
  finishedLate?(outcome: Outcome): void;
}

/** What becomes of a command: passed, as it is or as something else, or answered in the agent's place. */
export type Admission = Passage | { answer: Buffer };

/** How a command goes to the agent. */
export interface Passage {
  pass: true;
  /** Sent in its place. */
  instead?: Buffer;
  /** Makes what the client gets of an answer that ends in OK, which is kept until it is complete. */
  edit?: ((answer: Buffer) => Buffer) | undefined;
}

/** It goes to the agent as it is. */
export const PASS: Admission = { pass: true };

/** Where a gate's bytes go. */
export interface GateOutlets {
  toAgent(bytes: Buffer): void;
  toClient(bytes: Buffer): void;
  /** The client has sent its last byte, and the agent has everything; `isAnswered`: and has answered it. */
  endAgent(isAnswered: boolean): void;
  /** The gate takes bytes of the client again. */
  resume(): void;
  /** The session can't go on: what the client sent while a command was held back is none of Assuan. */
  broken(error: BridgeError): void;
}

/** A comment, which no agent answers. */
export const EMPTY_COMMENT = Buffer.from('#\n');

/**
 * Whose turn it is. In `inquiry` the client owes the data of the command that is going on; `held` waits for the rules;
 * with `left` the agent uses a key for a client that has gone.
 */
type Turn = 'greeting' | 'client' | 'agent' | 'inquiry' | 'held' | 'left' | 'over';

/** Comments and blank lines before a command that are kept with it; more go ahead of it. */
const MAX_COMMENT_BYTES = 4_096;
/** Pieces in which early bytes are kept before they are put together. */
const MAX_EARLY_PIECES = 64;
const NOTHING = Buffer.alloc(0);

/**
 * Stands between a client and gpg-agent on the host: gives the agent one command at a time, or those together that
 * the rules let overlap, so that the command that the agent is answering is known at every moment, whatever a client
 * sends ahead. Bytes are passed on as they are, unless the rules say otherwise; the answer to a use of a key leaves
 * in one piece, after the rules were told.
 */
export class CommandGate {
  /**
   * Whether the agent is sent an empty comment whenever a part of an answer has come. gpg-agent for Windows writes a line
   * and its end separately, and its kernel keeps the second until the first is acknowledged, which ours puts off for
   * 40 ms unless there is something to send.
   */
  hurry = false;
  readonly #rules: GateRules;
  readonly #out: GateOutlets;
  readonly #now: () => number;
  readonly #fromClient = new LineHead(
    (line) => line.wordLength === NAMES_KEY_LENGTH && line.hasBlank && namesKey(line.word.toUpperCase()),
  );
  readonly #fromAgent = new LineHead((line) => line.wordIs('ERR'));
  #turn: Turn = 'greeting';
  #current: PendingOperation | undefined;
  /** Commands that went to the agent together with the current one. */
  readonly #overlapping: PendingOperation[] = [];
  /** What has to be written to the agent, with what follows it in the same chunk. */
  #unwritten: Buffer[] = [];
  /** The next command of the client has to wait until the agent has answered all of them. */
  #mustWait = false;
  /** Something was written to the agent since the last bytes of it came. */
  #hasWritten = false;
  #chosenKey: string | undefined;
  /** The beginning of a command whose line is not complete, with the comments before it. */
  #partial = NOTHING;
  /** Bytes of the client whose turn has not come. */
  #early: Buffer[] = [];
  /** Bytes of the present chunk behind the command that is being carried out. */
  #behind = 0;
  /** The part of an answer that has come and has to leave in one piece. */
  #withheld: Buffer[] = [];
  #edit: Passage['edit'];
  #clientEnded = false;

  constructor(rules: GateRules, out: GateOutlets, { now = Date.now }: { now?: () => number } = {}) {
    this.#rules = rules;
    this.#out = out;
    this.#now = now;
  }

  /** Whether the client waits for the greeting or for a response. */
  get owed(): boolean {
    return this.#turn === 'greeting' || this.#turn === 'agent' || this.#turn === 'held';
  }

  /** Whether it is the client's turn, and every byte that came from it was a part of what is answered. */
  get isIdle(): boolean {
    return (
      this.#turn === 'client' &&
      this.#behind === 0 &&
      this.#early.length === 0 &&
      this.#partial.length === 0 &&
      !this.#clientEnded
    );
  }

  /** Whether the client has sent more than the command that is going on. */
  get hasMore(): boolean {
    return this.#behind > 0 || this.#early.length > 0;
  }

  /** What the client has got the beginning of: nothing, a `D` line, or another one. */
  get halfSaid(): 'nothing' | 'data' | 'line' {
    const line = this.#fromAgent;
    if (line.isComplete || this.#withheld.length > 0) return 'nothing';
    return line.isData ? 'data' : 'line';
  }

  /** Whether the client has sent its last byte. */
  get clientHasEnded(): boolean {
    return this.#clientEnded;
  }

  /** The command that has no final answer yet, also while the agent inquires. */
  get pending(): PendingOperation | undefined {
    return this.#current;
  }

  /** Takes bytes of the client, which are the caller's again afterwards; false: no more until `resume`. */
  fromClient(chunk: Buffer): boolean {
    if (this.#turn === 'over') return true;
    if (this.#early.length > 0) {
      this.#keepEarly(chunk);
      return false;
    }
    const used = this.#use(chunk);
    if (used < chunk.length) this.#keepEarly(chunk.subarray(used));
    this.#write();
    return this.#early.length === 0;
  }

  /** The client has sent its last byte. */
  clientEnded(): void {
    this.#clientEnded = true;
    this.#endAgentIfDone();
  }

  /**
   * The client has gone, and nothing more of it is carried out. True: the agent is using a key for it, for which it may
   * be asking a person; what it says then is taken as before, until `isOver`.
   */
  clientLeft(): boolean {
    const operation = this.#current;
    if (this.#turn !== 'agent' || !operation || !isKeyUse(operation.command)) {
      this.end();
      return false;
    }
    this.#turn = 'left';
    this.#early = [];
    this.#partial = NOTHING;
    this.#withheld = [];
    this.#finish(operation, 'closed', undefined, true);
    return true;
  }

  /** Whether there is nothing more to wait for. */
  get isOver(): boolean {
    return this.#turn === 'over';
  }

  /** Takes bytes of the agent, which are the caller's again afterwards. */
  fromAgent(chunk: Buffer): void {
    const line = this.#fromAgent;
    let from = 0;
    this.#hasWritten = false;
    for (let at = 0; at < chunk.length; ) {
      at = line.read(chunk, at);
      if (at < 0) break;
      const last = this.#lastLine(line);
      if (!last) continue;
      this.#answered(last, chunk.subarray(from, at), line.argument);
      from = at;
    }
    if (from < chunk.length) this.#passAnswer(from === 0 ? chunk : chunk.subarray(from));
    // What the agent was sent last was a whole command, or the end of an inquiry's data: a line of its own has room here.
    if (this.hurry && this.#turn === 'agent' && !this.#hasWritten) this.#out.toAgent(EMPTY_COMMENT);
  }

  /** The connection is gone: a command without an answer is told as `closed`, BYE as done. */
  end(): void {
    if (this.#turn === 'over') return;
    if (this.#turn === 'left') this.#rules.finishedLate?.('closed');
    this.#turn = 'over';
    this.#early = [];
    this.#partial = NOTHING;
    const operations = [...(this.#current ? [this.#current] : []), ...this.#overlapping.splice(0)];
    for (const operation of operations) {
      this.#finish(operation, operation.command === 'BYE' ? 'ok' : 'closed');
    }
  }

  /** Uses what it is the client's turn for; returns how many bytes that were. */
  #use(chunk: Buffer): number {
    const line = this.#fromClient;
    let from = 0;
    for (let at = 0; at < chunk.length; ) {
      if (this.#turn === 'agent' && this.#rules.overlaps) {
        const end = this.#overlap(chunk, from);
        if (end === from) return from;
        from = at = end;
        continue;
      }
      if (this.#turn !== 'client' && this.#turn !== 'inquiry') return from;
      const lineStart = at - (line.isComplete ? 0 : line.length);
      at = line.read(chunk, at);
      if (line.length > MAX_LINE_BYTES) {
        if (this.#turn === 'client') throw lineTooLong();
        at = lineStart + CUT_LINE_BYTES;
        this.#behind = chunk.length - at;
        this.#cutInquiry(chunk.subarray(from, at));
        this.#behind = 0;
        from = at;
        continue;
      }
      if (at < 0) break;
      if (line.isBlank || line.isComment) continue;
      if (this.#turn === 'inquiry' && line.isData) continue;
      this.#behind = chunk.length - at;
      if (this.#turn === 'inquiry') {
        // Whatever ends the data, the agent answers it.
        this.#turn = 'agent';
        this.#out.toAgent(chunk.subarray(from, at));
      } else {
        this.#command(chunk.subarray(from, at));
      }
      this.#behind = 0;
      from = at;
    }
    if (from === chunk.length) return from;
    const rest = chunk.subarray(from);
    if (this.#turn === 'inquiry') this.#out.toAgent(rest);
    else this.#keep(rest);
    return chunk.length;
  }

  /**
   * A line of an inquiry is longer than the agent reads: it answers the first bytes with an error and takes the rest
   * for a command. So the rest is one here, too.
   */
  #cutInquiry(bytes: Buffer): void {
    this.#fromClient.reset();
    this.#turn = 'agent';
    this.#out.toAgent(bytes);
  }

  /** Keeps the beginning of a command. */
  #keep(rest: Buffer): void {
    this.#partial = Buffer.concat([this.#partial, rest]);
    if (this.#fromClient.isComplete && this.#partial.length > MAX_COMMENT_BYTES) {
      this.#out.toAgent(this.#partial);
      this.#partial = NOTHING;
    }
  }

  /** Sends the next line with the commands that the agent is answering, if it may; returns where it ended. */
  #overlap(chunk: Buffer, from: number): number {
    const line = this.#fromClient;
    const end = line.read(chunk, from);
    const isCommand = end > 0 && line.length <= MAX_LINE_BYTES && !line.isBlank && !line.isComment;
    const bytes = chunk.subarray(from, end);
    const operation = isCommand ? this.#operation() : undefined;
    if (!operation || !this.#rules.overlaps?.(operation, bytes)) {
      line.reset(); // it is read again when its turn has come
      this.#mustWait = isCommand;
      return from;
    }
    this.#overlapping.push(operation);
    this.#unwritten.push(bytes);
    return end;
  }

  /** The command whose line was read. */
  #operation(): PendingOperation {
    const command = commandWord(this.#fromClient);
    const key =
      keyNamedIn(this.#fromClient.argument) ?? (usesPrivateKey(command) ? this.#chosenKey : undefined);
    const startedAt = this.#now();
    return key === undefined ? { command, startedAt } : { command, key, startedAt };
  }

  #write(): void {
    const [first, ...more] = this.#unwritten;
    if (!first) return;
    this.#unwritten = [];
    this.#hasWritten = true;
    this.#out.toAgent(more.length === 0 ? first : Buffer.concat([first, ...more]));
  }

  #command(bytes: Buffer): void {
    const block = this.#partial.length > 0 ? Buffer.concat([this.#partial, bytes]) : bytes;
    this.#partial = NOTHING;
    const operation = this.#operation();
    this.#current = operation;
    const admission = this.#rules.admit?.(operation, block) ?? PASS;
    if (!(admission instanceof Promise)) {
      this.#carryOut(operation, block, admission);
      return;
    }
    this.#turn = 'held';
    const kept = Buffer.from(block);
    admission
      .then((decided) => this.#decided(operation, kept, decided))
      .catch((error) => this.#out.broken(toBridgeError(error, 'the session cannot go on')));
  }

  #decided(operation: PendingOperation, block: Buffer, admission: Admission): void {
    if (this.#turn !== 'held' || this.#current !== operation) return;
    this.#turn = 'client';
    this.#carryOut(operation, block, admission);
    this.#useEarly();
    this.#write();
  }

  #carryOut(operation: PendingOperation, block: Buffer, admission: Admission): void {
    if ('answer' in admission) {
      const replaced = this.#finish(operation, 'refused');
      this.#out.toClient(replaced ?? admission.answer);
      return;
    }
    this.#turn = 'agent';
    this.#edit = admission.edit;
    this.#unwritten.push(admission.instead ?? block);
  }

  /** The word that ends a response, if this line does. */
  #lastLine(line: LineHead): 'greeting' | 'OK' | 'ERR' | 'INQUIRE' | undefined {
    if (this.#turn === 'greeting') return line.isBlank || line.isComment ? undefined : 'greeting';
    if (this.#turn !== 'agent' && this.#turn !== 'left') return undefined;
    if (line.wordIs('OK')) return 'OK';
    if (line.wordIs('ERR')) return 'ERR';
    return line.wordIs('INQUIRE') ? 'INQUIRE' : undefined;
  }

  #answered(last: 'greeting' | 'OK' | 'ERR' | 'INQUIRE', bytes: Buffer, argument: string): void {
    if (this.#turn === 'left') {
      this.#turn = 'over';
      this.#rules.finishedLate?.(last === 'OK' ? 'ok' : 'cancelled');
      return;
    }
    const whole = this.#withheld.length > 0 ? Buffer.concat([...this.#withheld.splice(0), bytes]) : bytes;
    const answer = this.#edit && last === 'OK' ? this.#edit(whole) : whole;
    if (last === 'INQUIRE') {
      const reply = this.#rules.inquired?.();
      if (reply) {
        this.#out.toAgent(reply);
        return;
      }
      this.#turn = 'inquiry';
      this.#mustWait = false;
      this.#out.toClient(answer);
    } else {
      const isOver = last === 'OK' && this.#current?.command === 'BYE';
      const replaced = last === 'greeting' ? undefined : this.#settle(last, argument);
      const next = this.#overlapping.shift();
      this.#current = next;
      this.#edit = undefined;
      this.#turn = isOver ? 'over' : next ? 'agent' : 'client';
      if (!next) this.#mustWait = false;
      this.#out.toClient(replaced ?? answer);
      // The agent closes now, and answers nothing that came behind BYE.
      if (isOver) {
        this.#early = [];
        this.#partial = NOTHING;
      }
    }
    this.#useEarly();
  }

  #passAnswer(bytes: Buffer): void {
    if (this.#turn === 'left' || this.#turn === 'over') return;
    if (this.#turn === 'agent' && this.#current && (this.#edit || isKeyUse(this.#current.command))) {
      this.#withheld.push(Buffer.from(bytes));
    } else {
      this.#out.toClient(bytes);
    }
  }

  #settle(last: 'OK' | 'ERR', argument: string): Buffer | undefined {
    const operation = this.#current;
    if (!operation) return undefined;
    if (last === 'OK') return this.#finish(operation, 'ok');
    const code = Number.parseInt(argument, 10);
    if (Number.isNaN(code)) return this.#finish(operation, 'error');
    return this.#finish(operation, isCancellation(code) ? 'cancelled' : 'error', code);
  }

  #finish(
    operation: PendingOperation,
    outcome: Outcome,
    errorCode?: number,
    goesOn?: boolean,
  ): Buffer | undefined {
    this.#current = undefined;
    if (outcome === 'ok') this.#chosenKey = chosenBy(operation, this.#chosenKey);
    const durationMs = Math.max(0, this.#now() - operation.startedAt);
    return this.#rules.finished(finishedOperation(operation, outcome, durationMs, errorCode), goesOn);
  }

  /** Copies bytes to use them later: neither every time all of them, nor into more pieces than a few. */
  #keepEarly(chunk: Buffer): void {
    if (this.#early.length === MAX_EARLY_PIECES) this.#early = [Buffer.concat(this.#early)];
    this.#early.push(Buffer.from(chunk));
  }

  #useEarly(): void {
    if (this.#mustWait) return;
    if (this.#early.length > 0) {
      const early = this.#early.length === 1 ? this.#early[0]! : Buffer.concat(this.#early);
      this.#early = [];
      const used = this.#use(early);
      if (used < early.length) this.#early.unshift(early.subarray(used));
      this.#write();
      if (this.#early.length > 0) return;
      this.#out.resume();
    }
    this.#endAgentIfDone();
  }

  #endAgentIfDone(): void {
    if (this.#clientEnded && this.#early.length === 0 && this.#turn !== 'held') {
      this.#out.endAgent(this.#turn === 'client');
    }
  }
}

function lineTooLong(): BridgeError {
  return new BridgeError('LINE_TOO_LONG', {
    what: 'the session cannot go on',
    why: 'the client sent a line of more than 1,000 bytes',
    fix: 'Assuan allows no longer ones: check which program is talking to the socket.',
  });
}
