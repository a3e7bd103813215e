import { isCancellation } from './error-codes.ts';
import { LineHead } from './line-head.ts';
import { LineQueue, type ObservedLine } from './line-queue.ts';
import {
  type ChosenKeys,
  chosenBy,
  commandWord,
  keyNamedIn,
  NAMES_KEY_LENGTH,
  NO_KEYS,
  namesKey,
  type Operation,
  type Outcome,
  type PendingOperation,
} from './operation.ts';
import { usesPrivateKey } from './private-key-commands.ts';

/** Whose turn it is. In `inquiry` the client owes the data of the command that is going on. */
type Turn = 'greeting' | 'client' | 'agent' | 'inquiry' | 'over';

/**
 * Watches both directions of one raw Assuan stream and tells which commands were asked and how they
 * ended. It keeps a bounded number of words, keygrips and counts, never payload, and never
 * changes or stops the stream.
 */
export class AssuanObserver {
  readonly #fromClient = new LineHead(
    (line) => line.wordLength === NAMES_KEY_LENGTH && line.hasBlank && namesKey(line.word.toUpperCase()),
  );
  readonly #fromAgent = new LineHead((line) => line.wordIs('ERR'));
  readonly #early = new LineQueue();
  readonly #onOperation: (operation: Operation) => void;
  readonly #now: () => number;
  #turn: Turn = 'greeting';
  #current: PendingOperation | undefined;
  #chosen: ChosenKeys = NO_KEYS;

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
      const seen = { command: data ? 'D' : commandWord(line), data, key: keyNamedIn(line.argument) };
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
    const used = key ?? (usesPrivateKey(command) ? this.#chosen.key : undefined);
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
      this.#chosen = chosenBy(operation, this.#chosen);
    }
    const durationMs = Math.max(0, this.#now() - startedAt);
    const done: Operation = { command, startedAt, outcome, durationMs };
    if (key !== undefined) done.key = key;
    if (errorCode !== undefined) done.errorCode = errorCode;
    this.#onOperation(done);
  }
}
