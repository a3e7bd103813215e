import type { Duplex } from 'node:stream';
import { BridgeError } from '../errors.ts';
import { type Block, BlockScanner } from './block-scanner.ts';
import { awaitGreeting, type GreetingOptions } from './greeting.ts';

/** How long to wait for each answer, and what an early close means on this stream. */
export interface AskOptions extends GreetingOptions {
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
  return new Promise((resolve, reject) => {
    awaitGreeting(stream, options, {
      greeted: (received) => new Asking(stream, commands, options, resolve, reject).start(received),
      refused: reject,
      closed: (cause) =>
        reject(options.earlyCloseError?.(cause) ?? closedError('no greeting from the agent', cause)),
    });
  });
}

/** The part of a conversation that follows the greeting. */
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

  /** `received` is the greeting and whatever came with it. */
  start(received: Buffer): void {
    const { stream } = this;
    stream.on('data', this.#onData).on('error', this.#onError);
    stream.once('end', this.#onEnd).once('close', this.#onEnd);
    this.#onData(received);
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#scanner.push(chunk);
      this.#takeAnswers();
    } catch (error) {
      this.#fail(error as BridgeError);
    }
  };

  readonly #onError = (error: Error): void => this.#fail(closedError(this.#unanswered(), error));
  readonly #onEnd = (): void => this.#fail(closedError(this.#unanswered()));

  #takeAnswers(): void {
    for (
      let block: Block | undefined;
      (block = this.#scanner.next(this.#greeting ? 'response' : 'greeting'));
    ) {
      if (this.#greeting) this.#takeResponse(block);
      else this.#greeting = block;
      const command = this.commands[this.#responses.length];
      if (command === undefined) {
        this.#finish();
        this.resolve({ greeting: this.#greeting, responses: this.#responses });
        return;
      }
      this.#waitForAnswer();
      this.stream.write(`${command}\n`, 'latin1');
    }
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
    return new BridgeError('AGENT_RESPONSE_TIMEOUT', {
      what: this.#unanswered(),
      why: `it was silent for ${this.options.timeoutMs} ms`,
      fix: 'Restart it with `gpgconf --kill gpg-agent`.',
    });
  }

  #unanswered(): string {
    return `no answer to ${this.#commandWord()}`;
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

function closedError(what: string, cause?: unknown): BridgeError {
  return new BridgeError('AGENT_CLOSED', {
    what,
    why: 'it closed the connection',
    fix: 'Try again, and look at the log of gpg-agent if it stays so.',
    cause,
  });
}
