import type { Duplex } from 'node:stream';
import { BridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { type Block, BlockScanner, MAX_LINE_BYTES } from './block-scanner.ts';
import { describeError, errorValueOf } from './error-codes.ts';
import { LF } from './line-head.ts';
import { noAnswerInTime, Questions } from './questions.ts';

/** How long an agent may take to greet, unless said. */
export const GREETING_TIMEOUT_MS = 5_000;

/** A greeting is one line; an agent that sends so many comments before it is none. */
const MAX_GREETING_BYTES = 64 * 1024;
const UPPER_O = 0x4f;
const UPPER_K = 0x4b;

/** How to wait for a greeting. */
export interface GreetingOptions {
  timeoutMs?: number | undefined;
  /** Who is waited for, as error messages name it; `the agent` unless said. */
  agentName?: string | undefined;
  /** Lines that were sent before it greeted, whose answers are waited for, too. */
  questions?: number | undefined;
  /** How long these may take after it has greeted; as long as the greeting, unless said. */
  answersMs?: number | undefined;
}

/** What can become of a new connection; exactly one is called, once. */
export interface GreetingOutcome {
  /**
   * The agent wants to talk. `received` is all it has sent so far: the greeting, which is so many bytes with the
   * comments before it, and whatever came with it. With questions it is the greeting alone, and `answers` are theirs. A
   * consumer that attaches itself during the call misses nothing that follows.
   */
  greeted(received: Buffer, length: number, answers: readonly Block[]): void;
  /** Its first line is not a greeting, what follows is no answer, or it did not come in time. */
  refused(error: BridgeError): void;
  /** The connection failed, or ended before. */
  closed(cause: Error | undefined): void;
}

/**
 * Waits for an agent's greeting on a stream that may still be connecting: any line that starts with `OK`,
 * since the words behind it differ between agents. Returns how to stop waiting. The stream stays the caller's,
 * without listeners of ours, whatever comes of it.
 */
export function awaitGreeting(
  stream: Duplex,
  options: GreetingOptions,
  outcome: GreetingOutcome,
): () => void {
  const { timeoutMs = GREETING_TIMEOUT_MS, agentName = 'the agent', questions: count = 0 } = options;
  const { answersMs = timeoutMs } = options;
  const questions = count > 0 ? new Questions(count) : undefined;
  let greetingLength = 0;
  let scanner: BlockScanner | undefined;
  let received: Buffer | undefined;
  const leave = () => {
    clearTimeout(timer);
    stream.off('error', onClosed).off('end', onEnd).off('close', onEnd);
    leaveViews(stream, onBytes);
  };
  const onClosed = (cause?: Error) => {
    leave();
    outcome.closed(cause);
  };
  const onEnd = () => onClosed();
  const refuse = (error: BridgeError) => {
    leave();
    outcome.refused(error);
  };
  /** The length of a greeting that may have comments before it; 0 if it is not all there. */
  const scannedLength = (all: Buffer, last: Buffer): number => {
    if (scanner) scanner.push(last);
    else {
      scanner = new BlockScanner({ maxBlock: MAX_GREETING_BYTES });
      scanner.push(all);
    }
    const greeting = scanner.next('greeting');
    if (!greeting) return 0;
    if (!greeting.word.startsWith('OK')) throw badGreeting(agentName, greeting.line);
    return all.length - scanner.buffered;
  };
  const allowAnswers = () => {
    clearTimeout(timer);
    timer = setTimeout(() => refuse(noAnswerInTime(agentName, answersMs)), answersMs);
  };
  const onBytes = (view: Buffer) => {
    const chunk = Buffer.from(view);
    const isFirst = greetingLength === 0;
    try {
      let unread: Buffer = chunk;
      if (isFirst) {
        received = received ? Buffer.concat([received, chunk]) : chunk;
        // Nearly always it is one plain line, and needs no scanner.
        const isPlain = !scanner && startsPlainly(received);
        greetingLength = isPlain ? received.indexOf(LF) + 1 : scannedLength(received, chunk);
        if (greetingLength === 0) return;
        if (questions) {
          unread = received.subarray(greetingLength);
          received = received.subarray(0, greetingLength);
        }
      }
      if (questions && !questions.take(unread)) {
        if (isFirst) allowAnswers();
        return;
      }
    } catch (error) {
      refuse(error as BridgeError);
      return;
    }
    leave();
    outcome.greeted(received!, greetingLength, questions?.answers ?? []);
  };
  let timer = setTimeout(() => refuse(noGreeting(agentName, timeoutMs)), timeoutMs);
  if (stream.destroyed || stream.readableEnded) {
    onClosed(stream.errored ?? undefined);
    return () => {};
  }
  stream.on('error', onClosed).on('end', onEnd).on('close', onEnd);
  takeViews(stream, onBytes);
  return leave;
}

/** Whether these bytes are a line that starts with `OK`, or the beginning of one, of a length that Assuan allows. */
function startsPlainly(bytes: Buffer): boolean {
  if (bytes[0] !== UPPER_O || bytes[1] !== UPPER_K) return false;
  const end = bytes.indexOf(LF);
  return (end < 0 ? bytes.length : end + 1) <= MAX_LINE_BYTES;
}

function badGreeting(agentName: string, line: Buffer): BridgeError {
  const value = errorValueOf(line);
  return new BridgeError('BAD_GREETING', {
    what: `${agentName} refused the connection`,
    why: value === undefined ? 'its first line is not a greeting' : `it greeted with ${describeError(value)}`,
    fix: 'Restart it with `gpgconf --kill gpg-agent` and try again.',
  });
}

function noGreeting(agentName: string, timeoutMs: number): BridgeError {
  return new BridgeError('AGENT_GREETING_TIMEOUT', {
    what: `${agentName} did not greet`,
    why: `nothing came within ${timeoutMs} ms of connecting`,
    fix: 'Restart it with `gpgconf --kill gpg-agent` and try again.',
  });
}
