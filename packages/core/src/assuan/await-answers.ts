import type { Duplex } from 'node:stream';
import { BridgeError, toBridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import type { Block } from './block-scanner.ts';
import { EMPTY_COMMENT } from './command-gate.ts';
import { noAnswerInTime, Questions } from './questions.ts';

/** What can become of questions; exactly one is called, once. */
export interface AnswersOutcome {
  answered(answers: readonly Block[]): void;
  failed(error: BridgeError): void;
}

/** How answers are waited for. */
export interface AwaitOptions {
  /** See `CommandGate.hurry`. */
  hurry?: boolean;
  /** What has come of them already. */
  received?: Buffer;
}

/**
 * Waits for the answers to so many lines on a connection that has greeted; the lines were sent or are about to be.
 * Returns how to stop waiting. The stream stays the caller's, without listeners of ours. Answers that are all there
 * already are told during the call.
 */
export function awaitAnswers(
  stream: Duplex,
  count: number,
  timeoutMs: number,
  outcome: AnswersOutcome,
  { hurry = false, received }: AwaitOptions = {},
): () => void {
  const questions = new Questions(count);
  const leave = () => {
    clearTimeout(timer);
    stream.off('error', onClosed).off('end', onEnd).off('close', onEnd);
    leaveViews(stream, onBytes);
  };
  const fail = (error: BridgeError) => {
    leave();
    outcome.failed(error);
  };
  const onClosed = (cause?: Error) => fail(closed(cause));
  const onEnd = () => onClosed();
  const onBytes = (view: Buffer) => {
    try {
      if (!questions.take(Buffer.from(view))) {
        if (hurry) stream.write(EMPTY_COMMENT);
        return;
      }
    } catch (error) {
      fail(toBridgeError(error, "can't read the gpg-agent's response"));
      return;
    }
    leave();
    outcome.answered(questions.answers);
  };
  const timer = setTimeout(() => fail(noAnswerInTime("the host's gpg-agent", timeoutMs)), timeoutMs);
  stream.on('error', onClosed).on('end', onEnd).on('close', onEnd);
  if (stream.destroyed || stream.readableEnded) {
    onClosed(stream.errored ?? undefined);
    return () => {};
  }
  takeViews(stream, onBytes);
  if (received && received.length > 0) onBytes(received);
  return leave;
}

function closed(cause: Error | undefined): BridgeError {
  return new BridgeError('AGENT_CLOSED', {
    what: "the host's gpg-agent did not answer",
    why: cause ? cause.message : 'it closed the connection',
    fix: 'Try again, and look at the log of gpg-agent if it stays so.',
    cause,
  });
}
