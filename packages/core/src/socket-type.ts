/**
 * The agent sockets a bridge can serve; the wire protocol and the listener in a target use the same names, and TABLE
 * their places in this list.
 */
export const SOCKET_TYPES = ['gpg-agent', 'ssh-agent'] as const;

/** One of the sockets a bridge serves. */
export type SocketType = (typeof SOCKET_TYPES)[number];
