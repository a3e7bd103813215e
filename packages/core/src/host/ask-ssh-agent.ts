import type { Socket } from 'node:net';
import { BridgeError } from '../errors.ts';
import { leaveViews, takeViews } from '../io/view-source.ts';
import { type SshMessage, SshMessageReader } from '../ssh/messages.ts';

const TIMEOUT_MS = 5_000;

/** Sends one message to an ssh-agent and resolves to its answer; the socket stays open, with nothing read ahead. */
export function askSshAgent(socket: Socket, message: Buffer): Promise<SshMessage> {
  return new Promise((resolve, reject) => {
    const reader = new SshMessageReader('agent');
    const settle = (outcome: () => void) => {
      clearTimeout(timer);
      leaveViews(socket, onBytes);
      socket.off('close', closed).off('error', failed);
      outcome();
    };
    const closed = () => settle(() => reject(unanswered('the connection was closed')));
    const failed = (error: Error) => settle(() => reject(unanswered(error.message)));
    const onBytes = (view: Buffer) => {
      try {
        const [answer] = reader.push(view);
        if (answer) settle(() => resolve(answer.copy()));
      } catch (error) {
        settle(() => reject(error));
      }
    };
    const timer = setTimeout(() => settle(() => reject(unanswered('nothing came in time'))), TIMEOUT_MS);
    socket.on('close', closed).on('error', failed);
    takeViews(socket, onBytes);
    socket.write(message);
  });
}

function unanswered(why: string): BridgeError {
  return new BridgeError('AGENT_RESPONSE_TIMEOUT', {
    what: 'the ssh-agent did not answer',
    why,
    fix: 'See whether `ssh-add -l` works on the host.',
  });
}
