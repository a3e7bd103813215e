import { MAX_AHEAD_LINE, type OnceEntry, onceFields } from '../assuan/answer-table.ts';
import type { Block } from '../assuan/block-scanner.ts';
import {
  type Admission,
  CommandGate,
  EMPTY_COMMENT,
  type GateOutlets,
  type GateRules,
  PASS,
} from '../assuan/command-gate.ts';
import { LF } from '../assuan/line-head.ts';
import type { Operation, Outcome, PendingOperation } from '../assuan/operation.ts';
import { isKeyUse } from '../assuan/private-key-commands.ts';
import { Questions } from '../assuan/questions.ts';
import { BridgeError, toBridgeError } from '../errors.ts';
import { encodeFields } from '../mux/fields.ts';
import type { AnswersAhead } from './answers-ahead.ts';
import { MAX_ALONG_BYTES, QuestionsAhead } from './questions-ahead.ts';
import { CHANGED, type Told, ToldAnswers, UNKNOWN_TOLD } from './told-answers.ts';

/** Where the bytes of a session go whose target answers ahead. */
export interface AheadOutlets extends GateOutlets {
  /** The end of an answer, with which it is the client's turn; `turn` tells the target so. */
  toClientInTurn(bytes: Buffer, turn: Buffer): void;
}

/** What a session needs. */
export interface AheadSessionOptions {
  answers: AnswersAhead;
  /** The rules for commands, told ones and others. */
  rules: GateRules;
  out: AheadOutlets;
  /** The ids of entries by which the next commands were answered, as far as they have come. */
  takeTold(): readonly Buffer[] | undefined;
  now?: () => number;
  /** See `CommandGate.hurry`. */
  hurry?: boolean;
}

const NOTHING = Buffer.alloc(0);
const CANCEL = Buffer.from('CAN\n');
const NO_ENTRIES: readonly OnceEntry[] = [];
/** In place of an entry's id: this end has answered the line. */
const GIVEN = -1;
/** How long an answer that was asked for when the session was opened may be given; a client asks at once, or it is asked anew. */
const MAX_FRESH_MS = 1_000;
/** Ids of told lines that have come ahead of the lines themselves; a target holds back far fewer. */
const MAX_TOLD = 4_096;

/**
 * One session with the host's agent, whose target has answered some of the client's commands ahead. Every command
 * reaches the agent in order, told ones together, and the agent's answer to a told one is compared with what the
 * client was told. While one differs, nothing that waits for the agent gets there, and no private key is used before
 * a RESET was answered OK.
 */
export class AheadSession implements GateRules {
  readonly gate: CommandGate;
  readonly #answers: AnswersAhead;
  readonly #check: ToldAnswers;
  readonly #rules: GateRules;
  readonly #out: AheadOutlets;
  readonly #takeTold: () => readonly Buffer[] | undefined;
  readonly #now: () => number;
  /** Bytes of the client so far. */
  #received = 0;
  #hasGreeted = false;
  #ids: number[] = [];
  /** Told lines that the agent has got and not answered, and its answer to the first of them so far. */
  readonly #told: Told[] = [];
  #answer = '';
  #hasInquired = false;
  /** The next bytes for the client end the answer to a command. */
  #isLastPart = false;
  /** The line that waits for the agent's answer, if that may be kept, and what has left of it. */
  #line: string | undefined;
  #parts = NOTHING;
  #hasWaited = false;
  /** What was asked when the session was opened, until the first command that waits. */
  #fresh: { since: number; entries: readonly OnceEntry[] } | undefined;
  /** What the command was answered with that goes to the agent next. */
  #given: OnceEntry | undefined;
  /** Our own questions that the agent is answering. */
  #asking: { answers: Questions; questions: QuestionsAhead; done: () => void } | undefined;
  /** Those that leave with the next turn. */
  #along = NO_ENTRIES;
  /** The answer to the line that waits may be needed again in this session. */
  #comesAgain = false;

  constructor({ answers, rules, out, takeTold, now = Date.now, hurry = false }: AheadSessionOptions) {
    this.#answers = answers;
    this.#check = new ToldAnswers(answers);
    this.#rules = rules;
    this.#out = out;
    this.#takeTold = takeTold;
    this.#now = now;
    this.gate = new CommandGate(this, { ...out, toClient: (bytes) => this.#toClient(bytes) }, { now });
    this.gate.hurry = hurry;
  }

  /** Whether the client waits for a response. */
  get owed(): boolean {
    return this.gate.owed && (this.#told.length === 0 || this.gate.hasMore);
  }

  /** What the client has got the beginning of. */
  get halfSaid(): 'nothing' | 'data' | 'line' {
    return this.#told.length > 0 ? 'nothing' : this.gate.halfSaid;
  }

  /** The agent has greeted, and before that answered these questions. */
  begin(greeting: Buffer, questions: QuestionsAhead, answers: readonly Block[]): void {
    const entries = questions.entries(answers, () => this.#answers.newId());
    if (entries.length > 0) this.#fresh = { since: this.#now(), entries };
    this.gate.fromAgent(greeting);
  }

  /** Takes bytes of the client; see `CommandGate.fromClient`. */
  fromClient(chunk: Buffer): boolean {
    this.#received += chunk.length;
    if (this.#fresh) this.#answerFresh(chunk);
    return this.gate.fromClient(chunk);
  }

  /** Takes bytes of the agent. */
  fromAgent(chunk: Buffer): void {
    if (this.#asking) this.#answerAlong(chunk);
    else this.gate.fromAgent(chunk);
  }

  // GateRules

  admit(operation: PendingOperation, block: Buffer): Admission | Promise<Admission> {
    const id = this.#nextTold();
    const line = id === undefined && block.length > MAX_KEPT_LINE ? '' : lineOf(block);
    if (id === GIVEN) {
      if (this.#takeGiven(line)) return this.#decide(operation, block);
    } else if (id !== undefined) return this.#admitTold(operation, block, line, id);
    const refusal = this.#check.refusalOf(operation.command);
    if (refusal) return { answer: refusal };
    this.#line = line;
    this.#parts = NOTHING;
    this.#comesAgain = false;
    this.#answers.used(line);
    const isFirst = !this.#hasWaited;
    this.#hasWaited = true;
    const isAsked = this.#takeFresh() !== undefined;
    if (operation.command === 'BYE' || isKeyUse(operation.command)) return this.#decide(operation, block);
    const recent = isFirst && !isAsked ? this.#answers.recent : [];
    // The line itself is answered anyway, and that answer is sent along, too.
    this.#comesAgain = recent.includes(line);
    const asked = [...recent.filter((each) => each !== line), ...this.#answers.followers(line)];
    if (asked.length === 0) return this.#decide(operation, block);
    const questions = new QuestionsAhead(asked, (...command) => this.#decide(...command));
    if (questions.count === 0) return this.#decide(operation, block);
    const kept = Buffer.from(block);
    return this.#ask(questions).then(() => this.#decide(operation, kept));
  }

  overlaps(operation: PendingOperation, block: Buffer): boolean {
    this.#takeIds();
    const id = this.#ids[0];
    if (id === undefined || this.#told.length === 0 || isKeyUse(operation.command)) return false;
    // What is not passed as it is, or not told by our table, has its turn when the agent has answered the others.
    if (this.#decide(operation, block) !== PASS) return false;
    const line = lineOf(block);
    if (id !== GIVEN) {
      const told = this.#check.find(id, line, operation.command);
      if (!told) return false;
      this.#told.push(told);
    } else if (!this.#takeGiven(line)) return false;
    this.#ids.shift();
    return true;
  }

  inquired(): Buffer | undefined {
    const [told, next] = this.#told;
    if (!told) {
      this.#line = undefined; // what depends on data of the client is not kept
      return undefined;
    }
    this.#hasInquired = true;
    // The agent has taken the next line for the data that it asks for.
    if (next) {
      this.#check.compare(told, '', true);
      this.#out.broken(inquiredAhead());
    }
    return CANCEL;
  }

  finished(operation: Operation, goesOn?: boolean): Buffer | undefined {
    this.#isLastPart = true;
    if (operation.outcome === 'refused' || operation.outcome === 'closed') this.#line = undefined;
    if (operation.command === 'RESET' && operation.outcome === 'ok') this.#check.wasReset();
    return this.#rules.finished(operation, goesOn);
  }

  awaitsClient(): void {
    this.#rules.awaitsClient?.();
  }

  resumes(): Buffer | undefined | Promise<Buffer | undefined> {
    return this.#rules.resumes?.();
  }

  finishedLate(outcome: Outcome): void {
    this.#rules.finishedLate?.(outcome);
  }

  /**
   * Answers the first line that waits, if that was asked when the session was opened and nothing is behind it: before the
   * told ones ahead of it are looked at, with which it goes to the agent and is compared.
   */
  #answerFresh(chunk: Buffer): void {
    if (!this.gate.isIdle || !this.#check.isAsTold) return;
    this.#takeIds();
    let at = 0;
    for (const _ of this.#ids) {
      const lf = chunk.indexOf(LF, at);
      if (lf < 0) return;
      at = lf + 1;
    }
    if (chunk.indexOf(LF, at) !== chunk.length - 1) return;
    const line = chunk.toString('latin1', at, chunk.length - 1);
    const given = this.#fresh?.entries.find((each) => each.line === line);
    if (!given || !this.#takeFresh()) return;
    this.#hasWaited = true;
    this.#given = given;
    this.#ids.push(GIVEN); // what is told next comes behind it
    this.#out.toClientInTurn(Buffer.from(given.answer, 'latin1'), this.#turn());
    this.#answers.used(line);
  }

  /** With the first command that waits: what was asked is sent along, unless that is too long ago. */
  #takeFresh(): readonly OnceEntry[] | undefined {
    const fresh = this.#fresh;
    this.#fresh = undefined;
    const age = fresh ? this.#now() - fresh.since : 0;
    if (!fresh || age < 0 || age > MAX_FRESH_MS) return undefined;
    this.#check.sentAlong(fresh.entries);
    this.#along = fresh.entries;
    return fresh.entries;
  }

  /** Whether this line is the one that was answered already: it is told, by this end. A target can mean another one. */
  #takeGiven(line: string): boolean {
    const given = this.#given;
    this.#given = undefined;
    if (given?.line !== line) return false;
    this.#told.push(given);
    return true;
  }

  #nextTold(): number | undefined {
    this.#takeIds();
    return this.#ids.shift();
  }

  #takeIds(): void {
    const notes = this.#takeTold();
    for (const note of notes ?? []) {
      for (let at = 0; at + 4 <= note.length && this.#ids.length < MAX_TOLD; at += 4) {
        this.#ids.push(note.readUInt32BE(at));
      }
    }
  }

  #admitTold(
    operation: PendingOperation,
    block: Buffer,
    line: string,
    id: number,
  ): Admission | Promise<Admission> {
    const told = this.#check.find(id, line, operation.command);
    this.#told.push(told ?? UNKNOWN_TOLD);
    // No target of ours tells such an answer; it gets the line's place in the order, and nothing else.
    return told ? this.#decide(operation, block) : { answer: CHANGED };
  }

  #decide(operation: PendingOperation, block: Buffer): Admission | Promise<Admission> {
    return this.#rules.admit?.(operation, block) ?? PASS;
  }

  /** Bytes that the gate has for the client: the greeting, which it has already, told answers, and real ones. */
  #toClient(bytes: Buffer): void {
    if (!this.#hasGreeted) {
      this.#hasGreeted = true;
      return;
    }
    const isLast = this.#isLastPart;
    this.#isLastPart = false;
    if (this.#told.length > 0) {
      this.#answer += bytes.toString('latin1');
      if (isLast) this.#compare();
      return;
    }
    if (this.#line !== undefined) this.#keepPart(this.#line, bytes, isLast);
    if (isLast && this.gate.isIdle) this.#out.toClientInTurn(bytes, this.#turn());
    else this.#out.toClient(bytes);
  }

  /** An agent writes a line and its end separately: they may come as two parts. */
  #keepPart(line: string, bytes: Buffer, isLast: boolean): void {
    const parts = this.#parts;
    this.#parts = NOTHING;
    if (isLast) this.#keepAnswer(line, parts.length > 0 ? Buffer.concat([parts, bytes]) : bytes);
    else if (parts.length + bytes.length <= MAX_AHEAD_LINE) {
      this.#parts = Buffer.concat([parts, bytes]);
      return;
    }
    this.#line = undefined;
  }

  #keepAnswer(line: string, answer: Buffer): void {
    this.#answers.learn(line, answer);
    if (!this.#comesAgain || line === '' || answer.length > MAX_ALONG_BYTES) return;
    const entry = { id: this.#answers.newId(), line, answer: answer.toString('latin1') };
    this.#check.sentAlong([entry]);
    this.#along = [...this.#along, entry];
  }

  #compare(): void {
    const [answer, hasInquired] = [this.#answer, this.#hasInquired];
    this.#answer = '';
    this.#hasInquired = false;
    this.#check.compare(this.#told.shift()!, answer, hasInquired);
  }

  /** The payload of TURN: how much of the client is answered, and the answers that are sent along. */
  #turn(): Buffer {
    const count = Buffer.allocUnsafe(4);
    count.writeUInt32BE(this.#received % 2 ** 32);
    const along = this.#along;
    if (along.length === 0) return count;
    this.#along = NO_ENTRIES;
    return Buffer.concat([count, encodeFields(onceFields(along))]);
  }

  /** Asks lines of our own before the command that waits. */
  #ask(questions: QuestionsAhead): Promise<void> {
    return new Promise((done) => {
      this.#asking = { answers: new Questions(questions.count), questions, done };
      this.#out.toAgent(questions.bytes);
    });
  }

  #answerAlong(chunk: Buffer): void {
    const asking = this.#asking;
    if (!asking) return;
    try {
      if (!asking.answers.take(Buffer.from(chunk))) {
        if (this.gate.hurry) this.#out.toAgent(EMPTY_COMMENT);
        return;
      }
    } catch (error) {
      this.#asking = undefined;
      this.#out.broken(toBridgeError(error, 'the session cannot go on'));
      return;
    }
    this.#asking = undefined;
    const along = asking.questions.entries(asking.answers.answers, () => this.#answers.newId());
    this.#check.sentAlong(along);
    this.#along = [...this.#along, ...along];
    asking.done();
  }
}

function inquiredAhead(): BridgeError {
  return new BridgeError('BAD_RESPONSE', {
    what: 'the session cannot go on',
    why: "the host's gpg-agent asked for data where it never did before",
    fix: 'Try again: its answers are no longer given ahead.',
  });
}

/** A longer line is learned nothing of. */
const MAX_KEPT_LINE = 1_001;

/** The line of a block that is one line; else nothing. */
function lineOf(block: Buffer): string {
  const text = block.toString('latin1');
  return text.indexOf('\n') === text.length - 1 ? text.slice(0, -1) : '';
}
