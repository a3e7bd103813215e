import { plainLine } from '../text/escape.ts';
import { describeError, GPG_ERROR } from './error-codes.ts';
import { LineHead } from './line-head.ts';

/** libgpg-error's source of errors that gpg-agent reports. */
const SOURCE_GPG_AGENT = 4;
/** What gpg-agent answers to BYE. */
export const BYE_ANSWER: Buffer = Buffer.from('OK closing connection\n');
/** Assuan's limit for a line without its LF. */
const MAX_TEXT_BYTES = 1000;
/** Refusals to one chunk: since one is up to 500 times as long as its command, the number has to be bounded. */
const MAX_REFUSALS = 256;

/**
 * The greeting for a client whose host agent is unavailable. It has to be an OK: gpg takes anything else
 * for a missing agent and starts one of its own at the bridge's path.
 */
export function unavailableGreeting(reason?: string): Buffer {
  return textLine('OK GPG Bridge', reason);
}

/** The answer to a command when the agent is unavailable: gpg prints "No agent running" and gives up. */
export function noAgentLine(reason: string): Buffer {
  return errLine(GPG_ERROR.NO_AGENT, reason);
}

/** An `ERR` line as gpg-agent would write it: `code` of libgpg-error, its own words, and our reason. */
export function errLine(code: number, reason: string): Buffer {
  const value = SOURCE_GPG_AGENT * 2 ** 24 + code;
  return textLine(`ERR ${value} ${describeError(value)}`, reason);
}

/** Speaks Assuan in place of an unavailable agent: greets, and refuses every command with the reason. */
export class UnavailableAgent {
  readonly greeting: Buffer;
  readonly #refusal: Buffer;
  readonly #line = new LineHead();
  #ended = false;
  /** Commands that were answered before they came here. */
  #told = 0;

  constructor(reason: string) {
    this.greeting = unavailableGreeting(reason);
    this.#refusal = noAgentLine(reason);
  }

  /** Whether the client said BYE, or far too much; the connection is to be closed once the answer is written. */
  get ended(): boolean {
    return this.#ended;
  }

  /** So many of the next commands have been answered, and get no answer here. */
  passOver(commands: number): void {
    this.#told += commands;
  }

  /**
   * What to write for these bytes, cut anywhere; empty while no command is complete. Nothing is kept of
   * them. Data lines belong to a command that was refused, so only the line behind them is answered.
   */
  answer(chunk: Buffer): Buffer {
    const answers: Buffer[] = [];
    const line = this.#line;
    for (let at = 0; at < chunk.length && !this.#ended; ) {
      at = line.read(chunk, at);
      if (at < 0) break;
      if (line.isBlank || line.isComment || line.isData) continue;
      if (this.#told > 0) {
        this.#told--;
        continue;
      }
      this.#ended = line.word.toUpperCase() === 'BYE';
      answers.push(this.#ended ? BYE_ANSWER : this.#refusal);
      if (answers.length === MAX_REFUSALS) this.#ended = true;
    }
    return answers.length === 1 ? answers[0]! : Buffer.concat(answers);
  }
}

function textLine(start: string, reason = ''): Buffer {
  const text = plainLine(reason);
  const line = Buffer.from(text ? `${start} - ${text}` : start);
  return Buffer.concat([cutToCharacters(line, MAX_TEXT_BYTES), Buffer.from('\n')]);
}

function cutToCharacters(utf8: Buffer, limit: number): Buffer {
  if (utf8.length <= limit) return utf8;
  let end = limit;
  // 10xxxxxx is the inside of a character: step back to where it begins.
  while ((utf8[end]! & 0xc0) === 0x80) end--;
  return utf8.subarray(0, end);
}
