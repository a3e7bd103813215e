import { BridgeError, toBridgeError } from '../errors.ts';
import { MAX_LINE_BYTES } from './block-scanner.ts';
import { isCiphertext } from './ciphertext.ts';
import { dataIn } from './data-lines.ts';
import { GPG_ERROR, isCancellation } from './error-codes.ts';
import { endsInquiry, isCancel, isWholeDataLine } from './inquiry-lines.ts';
import { LineHead } from './line-head.ts';
import type { Operation, Outcome, PendingOperation } from './operation.ts';
import {
  type ChosenKeys,
  chosenBy,
  commandWord,
  finishedOperation,
  keysNamedIn,
  NAMES_KEY_LENGTH,
  NO_KEYS,
  namesKey,
} from './operation.ts';
import { isKeyUse, usesPrivateKey } from './private-key-commands.ts';
import { errLine } from './unavailable-agent.ts';

/** What decides about commands, and is told what became of them. */
export interface GateRules {
  /**
   * Asked before a command goes to the agent. An answer is given to the client instead; a promise keeps the
   * command back until it resolves. `block` is the command's line, during the call.
   */
  admit?(command: PendingOperation, block: Buffer): Admission | Promise<Admission>;
  /**
   * Asked about a command behind others that the agent has not answered: whether it may go to the agent with them.
   * If not it waits until these are answered, and is asked about with `admit`. One that may is not asked about with `admit`, and passes as it is.
   */
  overlaps?(command: PendingOperation, block: Buffer): boolean;
  /** Asked when the agent inquires: what it is sent in the client's place, which then does not see the inquiry. */
  inquired?(): Buffer | undefined;
  /** Told that the client owes the data of an inquiry. */
  awaitsClient?(): void;
  /**
   * Asked when the client has sent all of it: an answer goes to the client, and the session ends; a promise keeps the
   * end of the data back until it resolves.
   */
  resumes?(): Buffer | undefined | Promise<Buffer | undefined>;
  /**
   * Told of a command before its answer leaves for the client; an answer returned here takes its place. `goesOn`: the
   * client has left, and the agent is still at it.
   */
  finished(operation: Operation, goesOn?: boolean): Buffer | undefined;
  /** Told what became of such a command. */
  finishedLate?(outcome: Outcome): void;
}

/** What becomes of a command: passed, as it is or as something else, or answered in the agent's place. */
export type Admission = Passage | { answer: Buffer /** The reason, for the log. */; why?: string };

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
  /** The session can't go on: one of the two sent what Assuan does not allow. */
  broken(error: BridgeError): void;
}

/** A comment, which no agent answers. */
export const EMPTY_COMMENT = Buffer.from('#\n');

/**
 * Whose turn it is. In `inquiry` the client owes the data of the command that is going on; `held` waits for the rules;
 * with `left` the agent uses a key for a client that has gone.
 */
type Turn = 'greeting' | 'client' | 'agent' | 'inquiry' | 'held' | 'left' | 'over';

/** Pieces in which early bytes are kept before they are put together. */
const MAX_EARLY_PIECES = 64;
const NOTHING = Buffer.alloc(0);
/** Bytes of the lines of a ciphertext: gpg-agent takes one of 4,096, each of which may be escaped. */
const MAX_CIPHERTEXT_LINES = 16 * 1024;
const CANCEL = Buffer.from('CAN\n');

/**
 * Stands between a client and gpg-agent on the host: gives the agent one command at a time, or those together that
 * the rules let overlap, so that the command that the agent is answering is known at every moment, whatever a client
 * sends ahead. Commands and data are passed on as they are, unless the rules say otherwise, each line only when it is
 * complete; comments and blank lines, which no agent answers, are dropped. The answer to a use of a key leaves in one
 * piece, after the rules were told. Bytes that the agent sends when it owes none end the session.
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
  #chosen: ChosenKeys = NO_KEYS;
  /** Lines of a ciphertext that is not complete: the agent gets it whole or not at all. */
  #ciphertext: Buffer[] = [];
  /** The beginning of a line that is not complete. */
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

  /** Whether the client owes the data of an inquiry: neither the agent nor a person is at it then. */
  get awaitsClient(): boolean {
    return this.#turn === 'inquiry';
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
      if (!this.#isAgentsTurn) {
        this.#outOfTurn();
        return;
      }
      at = line.read(chunk, at);
      if (at < 0) break;
      const last = this.#lastLine(line);
      if (!last) continue;
      this.#answered(last, chunk.subarray(from, at), line.argument, at < chunk.length);
      from = at;
    }
    if (from < chunk.length) this.#passAnswer(from === 0 ? chunk : chunk.subarray(from));
    // What the agent was sent last was a whole command, or the end of an inquiry's data: a line of its own has room here.
    if (this.hurry && this.#turn === 'agent' && !this.#hasWritten) this.#out.toAgent(EMPTY_COMMENT);
  }

  /** Whether bytes of the agent belong to something that it owes, or to nobody who is still there. */
  get #isAgentsTurn(): boolean {
    return this.#turn !== 'client' && this.#turn !== 'inquiry' && this.#turn !== 'held';
  }

  /** What an agent says when it owes nothing may belong to another session, and never leaves. */
  #outOfTurn(): void {
    this.end();
    this.#out.broken(outOfTurn());
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
      if (this.#turn === 'over') return chunk.length;
      if (this.#turn !== 'client' && this.#turn !== 'inquiry') return from;
      const start = at;
      at = line.read(chunk, at);
      if (line.length > MAX_LINE_BYTES) {
        if (this.#turn === 'client') throw lineTooLong();
        this.#breakInquiry('a line of more than 1,000 bytes');
        return chunk.length;
      }
      if (at < 0) {
        this.#partial = Buffer.concat([this.#partial, chunk.subarray(start)]);
        return chunk.length;
      }
      const bytes = this.#takeLine(chunk.subarray(start, at));
      from = at;
      if (line.isBlank || line.isComment) continue;
      this.#behind = chunk.length - at;
      if (this.#turn === 'inquiry') this.#inquiryLine(bytes);
      else this.#command(bytes);
      this.#behind = 0;
    }
    return chunk.length;
  }

  /** The line that these bytes complete. */
  #takeLine(bytes: Buffer): Buffer {
    if (this.#partial.length === 0) return bytes;
    const whole = Buffer.concat([this.#partial, bytes]);
    this.#partial = NOTHING;
    return whole;
  }

  /** Gives the agent a line of an inquiry's data, or the one that ends it, and nothing else. */
  #inquiryLine(bytes: Buffer): void {
    const isData = this.#fromClient.isData;
    if (!(isData ? isWholeDataLine(bytes) : endsInquiry(bytes))) {
      this.#breakInquiry(isData ? 'a data line with a broken escape' : 'neither data nor its end');
      return;
    }
    const isCiphertextExpected = this.#current?.command === 'PKDECRYPT';
    if (isData) {
      if (isCiphertextExpected) this.#keepCiphertext(bytes);
      else this.#unwritten.push(bytes);
      return;
    }
    if (isCiphertextExpected) {
      const lines = Buffer.concat(this.#ciphertext.splice(0));
      if (!isCancel(bytes)) {
        if (!isCiphertext(dataIn(lines))) {
          this.#breakInquiry('something else than a ciphertext');
          return;
        }
        this.#unwritten.push(lines);
      }
    }
    const refusal = this.#rules.resumes?.();
    if (!(refusal instanceof Promise)) {
      this.#endData(bytes, refusal);
      return;
    }
    this.#turn = 'held';
    const [operation, kept] = [this.#current, Buffer.from(bytes)];
    refusal
      .then((decided) => {
        if (this.#turn !== 'held' || this.#current !== operation) return;
        this.#endData(kept, decided);
        this.#useEarly();
        this.#write();
      })
      .catch((error) => this.#out.broken(toBridgeError(error, 'the session cannot go on')));
  }

  #keepCiphertext(line: Buffer): void {
    const kept = this.#ciphertext.reduce((sum, { length }) => sum + length, line.length);
    if (kept > MAX_CIPHERTEXT_LINES) this.#breakInquiry('too much data for a ciphertext');
    else this.#ciphertext.push(Buffer.from(line));
  }

  #endData(bytes: Buffer, refusal: Buffer | undefined): void {
    if (refusal) {
      this.#cancelInquiry(refusal, 'data for a command that may not be carried out any more');
      return;
    }
    this.#turn = 'agent';
    this.#unwritten.push(bytes);
  }

  #breakInquiry(what: string): void {
    this.#cancelInquiry(errLine(GPG_ERROR.ASSUAN_SYNTAX, `the client sent ${what}`), what);
  }

  /** The end of an inquiry's data must not reach the agent: the client gets an answer, the agent CAN; both are ended. */
  #cancelInquiry(answer: Buffer, what: string): void {
    const operation = this.#current;
    if (operation) this.#finish(operation, 'refused');
    this.#write(); // whole lines of data, which an agent does not answer
    this.end();
    this.#out.toAgent(CANCEL);
    this.#out.toClient(answer);
    this.#out.broken(brokenInquiry(what));
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
    const keys = usesPrivateKey(command) ? this.#chosen : keysNamedIn(this.#fromClient.argument);
    return { command, ...keys, startedAt: this.#now() };
  }

  #write(): void {
    const [first, ...more] = this.#unwritten;
    if (!first) return;
    this.#unwritten = [];
    this.#hasWritten = true;
    this.#out.toAgent(more.length === 0 ? first : Buffer.concat([first, ...more]));
  }

  #command(block: Buffer): void {
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

  #answered(
    last: 'greeting' | 'OK' | 'ERR' | 'INQUIRE',
    bytes: Buffer,
    argument: string,
    hasMore: boolean,
  ): void {
    if (this.#turn === 'left') {
      this.#turn = 'over';
      this.#rules.finishedLate?.(last === 'OK' ? 'ok' : 'cancelled');
      return;
    }
    // Said before the agent can have got anything more of the client, so it answers nothing of that.
    if (hasMore && (last === 'INQUIRE' || this.#overlapping.length === 0)) {
      this.#outOfTurn();
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
      this.#rules.awaitsClient?.();
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
    if (outcome === 'ok') this.#chosen = chosenBy(operation, this.#chosen);
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

function outOfTurn(): BridgeError {
  return new BridgeError('AGENT_OUT_OF_TURN', {
    what: "the host's gpg-agent spoke out of turn",
    why: 'it sent more than the response it owed, so the session was ended',
    fix: 'Check that the socket really belongs to gpg-agent.',
  });
}

function brokenInquiry(what: string): BridgeError {
  return new BridgeError('BAD_INQUIRY_DATA', {
    what: 'the session cannot go on',
    why: `the client answered an inquiry with ${what}`,
    fix: 'Check which program is talking to the socket.',
  });
}

function lineTooLong(): BridgeError {
  return new BridgeError('LINE_TOO_LONG', {
    what: 'the session cannot go on',
    why: 'the client sent a line of more than 1,000 bytes',
    fix: 'Assuan allows no longer ones: check which program is talking to the socket.',
  });
}
