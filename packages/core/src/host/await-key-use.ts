import type { Socket } from 'node:net';
import { takeViews } from '../io/view-source.ts';

/** A conversation with an agent that uses a key for a client which has left. */
export interface LeftConversation {
  /** Whether the agent has answered. */
  readonly isOver: boolean;
  /** Takes what the agent says. */
  fromAgent(bytes: Buffer): void;
}

/**
 * Stays with an agent that uses a key for a client which has left: it goes on with that and asks a person, whatever
 * becomes of the connection. So a use is over when the agent has answered. The socket must have no other reader; it is
 * destroyed then, and keeps no process alive meanwhile.
 */
export function awaitKeyUse(socket: Socket, conversation: LeftConversation): void {
  socket.unref();
  takeViews(socket, (bytes) => {
    conversation.fromAgent(bytes);
    if (conversation.isOver) socket.destroy();
  });
}
