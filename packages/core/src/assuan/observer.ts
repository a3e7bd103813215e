import { isCancellation } from './error-codes.ts';
import { LineHead } from './line-head.ts';
import { LineQueue, type ObservedLine, UNKNOWN_COMMAND } from './line-queue.ts';
import { usesPrivateKey } from './private-key-commands.ts';

/** How an operation ended; `closed` when the connection did first. */
export type Outcome = 'ok' | 'error' | 'cancelled' | 'closed';

/** A command that has no final answer yet. */
export interface PendingOperation {
  /** The command word in capitals, or `?` when what was sent is none. */
  command: string;
  /** The keygrip it works with, where that is known. */
  key?: string;
  /** Milliseconds since the epoch at which its turn came. */
  startedAt: number;
}

/** One command and what became of it: facts for a log, never payload. */
export interface Operation extends PendingOperation {
  outcome: Outcome;
  /** `source << 24 | code` of an ERR. */
  errorCode?: number;
  durationMs: number;
}

/** Whose turn it is. In `inquiry` the client owes the data of the command that is going on. */
type Turn = 'greeting' | 'client' | 'agent' | 'inquiry' | 'over';

/** Commands whose argument is a keygrip. All have six letters, which is the cheap first test. */
const NAMES_KEY: ReadonlySet<string> = new Set(['SIGKEY', 'SETKEY', 'PKAUTH']);
const NAMES_KEY_LENGTH = 6;
/** Commands that choose the key for those that follow. To gpg-agent the two are the same. */
const CHOOSES_KEY: ReadonlySet<string> = new Set(['SIGKEY', 'SETKEY']);

/**
 * Watches both directions of one raw Assuan stream and tells which commands were asked and how they
 * ended. It keeps a bounded number of words, keygrips and counts, never payload, and never
 * changes or stops the stream.
 */
export class AssuanObserver {
  readonly #fromClient = new LineHead(
    (line) => line.wordLength === NAMES_KEY_LENGTH && NAMES_KEY.has(line.word.toUpperCase()),
  );
  readonly #fromAgent = new LineHead((line) => line.wordIs('ERR'));
  readonly #early = new LineQueue();
  readonly #onOperation: (operation: Operation) => void;
  readonly #now: () => number;
  #turn: Turn = 'greeting';
  #current: PendingOperation | undefined;
  #chosenKey: string | undefined;

  constructor(onOperation: (operation: Operation) => void, { now = Date.now }: { now?: () => number } = {}) {
    this.#onOperation = onOperation;
    this.#now = now;
  }

  /** Whether the client waits for the greeting or for a response. */
  get owed(): boolean {
    return this.#turn === 'greeting' || this.#turn === 'agent';
  }

  /** What the agent has said the beginning of: nothing, a `D` line, or another one. */
  get halfSaid(): 'nothing' | 'data' | 'line' {
    const line = this.#fromAgent;
    if (line.isComplete) return 'nothing';
    return line.isData ? 'data' : 'line';
  }

  /** The command that has no final answer yet, also while the agent inquires. */
  get pending(): PendingOperation | undefined {
    return this.#current;
  }

  /** Sees bytes on their way to the agent. */
  fromClient(chunk: Buffer): void {
    const line = this.#fromClient;
    for (let at = 0; at < chunk.length; ) {
      at = line.read(chunk, at);
      if (at < 0) return;
      const data = line.isData;
      if ((data && this.#turn === 'inquiry') || line.isBlank || line.isComment) continue;
      const seen = { command: data ? 'D' : commandWord(line), data, key: keygrip(line.argument) };
      if (this.#isClientsTurn()) this.#use(seen);
      else if (this.#turn !== 'over') this.#early.push(seen);
    }
  }

  /** Sees bytes on their way to the client. */
  fromAgent(chunk: Buffer): void {
    const line = this.#fromAgent;
    for (let at = 0; at < chunk.length; ) {
      at = line.read(chunk, at);
      if (at < 0) return;
      if (this.#turn === 'greeting') {
        if (!line.isBlank && !line.isComment) this.#setTurn('client');
      } else if (line.wordIs('OK')) {
        this.#answered('ok');
      } else if (line.wordIs('ERR')) {
        this.#refused(line.argument);
      } else if (line.wordIs('INQUIRE') && this.#turn === 'agent') {
        this.#setTurn('inquiry');
      }
    }
  }

  /**
   * The connection is gone: what has no answer yet is told as `closed`, BYE as done. The agent may well
   * have carried out what was sent early, so that is told too, once for any run of equal lines.
   */
  end(): void {
    if (this.#turn === 'over') return;
    if (this.#current) this.#closed(this.#current);
    for (let line: ObservedLine | undefined; (line = this.#early.shiftRun()); ) {
      if (!line.data) this.#closed(this.#begin(line));
    }
    this.#turn = 'over';
  }

  #isClientsTurn(): boolean {
    return this.#turn === 'client' || this.#turn === 'inquiry';
  }

  #setTurn(turn: 'client' | 'inquiry'): void {
    this.#turn = turn;
    while (this.#early.length > 0 && this.#isClientsTurn()) {
      if (turn === 'inquiry' && this.#early.dataIsNext) this.#early.shiftRun();
      else this.#use(this.#early.shift()!);
    }
  }

  /** A line whose turn has come: a command, or the end of an inquiry (END, CAN or whatever it is). */
  #use(line: ObservedLine): void {
    if (this.#turn === 'client') this.#current = this.#begin(line);
    this.#turn = 'agent';
  }

  #begin({ command, key }: ObservedLine): PendingOperation {
    // Private-key commands work with the chosen key unless they name one.
    const used = key ?? (usesPrivateKey(command) ? this.#chosenKey : undefined);
    const startedAt = this.#now();
    return used === undefined ? { command, startedAt } : { command, key: used, startedAt };
  }

  #refused(argument: string): void {
    const value = Number.parseInt(argument, 10);
    if (Number.isNaN(value)) this.#answered('error');
    else this.#answered(isCancellation(value) ? 'cancelled' : 'error', value);
  }

  #answered(outcome: Outcome, errorCode?: number): void {
    if (!this.#current) return;
    const isLast = this.#current.command === 'BYE' && outcome === 'ok';
    this.#finish(this.#current, outcome, errorCode);
    // The agent closes after its answer to BYE, and never looks at what was sent behind it.
    if (isLast) this.#turn = 'over';
    else this.#setTurn('client');
  }

  #closed(operation: PendingOperation): void {
    this.#finish(operation, operation.command === 'BYE' ? 'ok' : 'closed');
  }

  #finish(operation: PendingOperation, outcome: Outcome, errorCode?: number): void {
    this.#current = undefined;
    const { command, key, startedAt } = operation;
    if (outcome === 'ok' || outcome === 'closed') {
      if (CHOOSES_KEY.has(command)) this.#chosenKey = key;
      else if (command === 'RESET' || command === UNKNOWN_COMMAND) this.#chosenKey = undefined;
    }
    const durationMs = Math.max(0, this.#now() - startedAt);
    const done: Operation = { command, startedAt, outcome, durationMs };
    if (key !== undefined) done.key = key;
    if (errorCode !== undefined) done.errorCode = errorCode;
    this.#onOperation(done);
  }
}

/** The first word in capitals, if it can be a command: payload that strayed here must not reach a log. */
function commandWord(line: LineHead): string {
  const { word } = line;
  if (line.wordLength === 0 || line.wordLength > word.length) return UNKNOWN_COMMAND;
  for (let i = 0; i < word.length; i++) {
    const letter = word.charCodeAt(i) | 0x20;
    if ((letter < 0x61 || letter > 0x7a) && word[i] !== '_') return UNKNOWN_COMMAND;
  }
  return word.toUpperCase();
}

/** A keygrip at the start of an argument, as gpg-agent reads it: exactly 40 hex digits, then anything. */
function keygrip(argument: string): string | undefined {
  if (argument === '') return undefined;
  return /^[0-9A-Fa-f]{40}(?![0-9A-Fa-f])/.exec(argument)?.[0].toUpperCase();
}
