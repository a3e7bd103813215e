import type { Duplex } from 'node:stream';
import { BridgeError } from '../errors.ts';
import { type Block, BlockScanner } from './block-scanner.ts';

/** How long to wait for each answer, and what an early close means on this stream. */
export interface AskOptions {
  timeoutMs: number;
  /** The error for a stream that closes before it greets; AGENT_CLOSED by default. */
  earlyCloseError?: (cause?: unknown) => BridgeError;
}

/** What the agent said: its greeting, and one response for each command. */
export interface Answers {
  greeting: Block;
  responses: Block[];
}

/** Answers to a few questions are small; an agent that sends more than this is none. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * Reads the greeting from a connected stream and sends the commands one by one, each after the answer to
 * the one before. The stream stays open, flowing, and the caller's, also after an error.
 */
export function ask(stream: Duplex, commands: readonly string[], options: AskOptions): Promise<Answers> {
  return new Promise((resolve, reject) => new Asking(stream, commands, options, resolve, reject).start());
}

class Asking {
  readonly #scanner = new BlockScanner({ maxBlock: MAX_ANSWER_BYTES });
  readonly #responses: Block[] = [];
  #greeting: Block | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly stream: Duplex,
    private readonly commands: readonly string[],
    private readonly options: AskOptions,
    private readonly resolve: (answers: Answers) => void,
    private readonly reject: (error: BridgeError) => void,
  ) {}

  start(): void {
    const { stream } = this;
    if (stream.destroyed || stream.readableEnded) {
      this.reject(this.#closedError(stream.errored ?? undefined));
      return;
    }
    stream.on('data', this.#onData).on('error', this.#onError);
    stream.once('end', this.#onEnd).once('close', this.#onEnd);
    this.#waitForAnswer();
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#scanner.push(chunk);
      this.#takeAnswers();
    } catch (error) {
      this.#finish();
      this.reject(error as BridgeError);
    }
  };

  readonly #onError = (error: Error): void => this.#fail(this.#closedError(error));
  readonly #onEnd = (): void => this.#fail(this.#closedError());

  #takeAnswers(): void {
    for (
      let block: Block | undefined;
      (block = this.#scanner.next(this.#greeting ? 'response' : 'greeting'));
    ) {
      if (this.#greeting) this.#takeResponse(block);
      else this.#takeGreeting(block);
      const command = this.commands[this.#responses.length];
      if (command === undefined) {
        this.#finish();
        this.resolve({ greeting: this.#greeting!, responses: this.#responses });
        return;
      }
      this.#waitForAnswer();
      this.stream.write(`${command}\n`, 'latin1');
    }
  }

  #takeGreeting(block: Block): void {
    // Any line that starts with OK greets; the words behind it differ between agents.
    if (!block.word.startsWith('OK')) {
      throw new BridgeError('BAD_GREETING', {
        what: 'the agent cannot be used',
        why: block.word === 'ERR' ? 'it greets with an error' : 'it does not greet as an agent does',
        fix: 'Check that the socket belongs to a gpg-agent, and restart it.',
      });
    }
    this.#greeting = block;
  }

  #takeResponse(block: Block): void {
    if (block.word === 'INQUIRE') {
      throw new BridgeError('BAD_RESPONSE', {
        what: `the agent's answer to ${this.#commandWord()} cannot be used`,
        why: 'it asks for data where it should answer',
        fix: 'Check that the socket belongs to a gpg-agent, and restart it.',
      });
    }
    this.#responses.push(block);
  }

  #waitForAnswer(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fail(this.#timeoutError()), this.options.timeoutMs);
  }

  #timeoutError(): BridgeError {
    const greeted = this.#greeting !== undefined;
    return new BridgeError(greeted ? 'AGENT_RESPONSE_TIMEOUT' : 'AGENT_GREETING_TIMEOUT', {
      what: greeted ? `no answer to ${this.#commandWord()}` : 'no greeting from the agent',
      why: `it was silent for ${this.options.timeoutMs} ms`,
      fix: 'Restart it with `gpgconf --kill gpg-agent`.',
    });
  }

  #closedError(cause?: unknown): BridgeError {
    const greeted = this.#greeting !== undefined;
    if (!greeted && this.options.earlyCloseError) return this.options.earlyCloseError(cause);
    return new BridgeError('AGENT_CLOSED', {
      what: greeted ? `no answer to ${this.#commandWord()}` : 'no greeting from the agent',
      why: 'it closed the connection',
      fix: 'Try again, and look at the log of gpg-agent if it stays so.',
      cause,
    });
  }

  #commandWord(): string {
    return this.commands[this.#responses.length]?.split(' ', 1)[0] ?? 'a command';
  }

  #fail(error: BridgeError): void {
    this.#finish();
    this.reject(error);
  }

  #finish(): void {
    clearTimeout(this.#timer);
    const { stream } = this;
    stream.off('data', this.#onData).off('error', this.#onError);
    stream.off('end', this.#onEnd).off('close', this.#onEnd);
  }
}
