import type { Socket } from 'node:net';
import { BridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { type SshMessage, SshMessageReader } from '../ssh/messages.ts';

const TIMEOUT_MS = 5_000;

/** How long an ssh-agent is waited for. */
export interface AskSshOptions {
  /** Five seconds, unless said otherwise; one that asks a person may take any time. */
  timeoutMs?: number | undefined;
  /** Gives up. */
  signal?: AbortSignal | undefined;
}

/** Sends one message to an ssh-agent and resolves to its answer; the socket stays open, with nothing read ahead. */
export function askSshAgent(
  socket: Socket,
  message: Buffer,
  { timeoutMs = TIMEOUT_MS, signal }: AskSshOptions = {},
): Promise<SshMessage> {
  return new Promise((resolve, reject) => {
    const reader = new SshMessageReader('agent');
    const settle = (outcome: () => void) => {
      clearTimeout(timer);
      leaveViews(socket, onBytes);
      socket.off('close', closed).off('error', failed);
      signal?.removeEventListener('abort', givenUp);
      outcome();
    };
    const closed = () => settle(() => reject(unanswered('AGENT_CLOSED', 'the connection was closed')));
    const failed = (error: Error) => settle(() => reject(unanswered('AGENT_CLOSED', error.message)));
    const late = (why: string) => settle(() => reject(unanswered('AGENT_RESPONSE_TIMEOUT', why)));
    const givenUp = () => late('nobody waits for it any more');
    const onBytes = (view: Buffer) => {
      try {
        reader.push(view, (answer) => settle(() => resolve(answer.copy())));
      } catch (error) {
        settle(() => reject(error));
      }
    };
    const timer =
      timeoutMs === Number.POSITIVE_INFINITY
        ? undefined
        : setTimeout(() => late('nothing came in time'), timeoutMs);
    signal?.addEventListener('abort', givenUp);
    socket.on('close', closed).on('error', failed);
    takeViews(socket, onBytes);
    if (signal?.aborted) givenUp();
    else if (socket.destroyed) closed();
    else socket.write(message);
  });
}

function unanswered(code: 'AGENT_CLOSED' | 'AGENT_RESPONSE_TIMEOUT', why: string): BridgeError {
  return new BridgeError(code, {
    what: 'the ssh-agent did not answer',
    why,
    fix: 'See whether `ssh-add -l` works on the host.',
  });
}
