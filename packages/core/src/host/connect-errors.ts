import { BridgeError, type ErrorCode } from '../errors.ts';

/**
 * How long a failure is tried again: not at all; while a file may be half written; while an agent may be
 * starting (unless the caller doesn't wait for that); or until the connect timeout, since it passes by itself.
 */
export type Patience = 'none' | 'half-written' | 'starting' | 'busy';

/** Why an attempt to connect failed, and how long that is worth another. */
export interface Failure {
  error: BridgeError;
  patience: Patience;
}

interface Errno {
  code: ErrorCode;
  why: string;
  fix: string;
  patience: Patience;
}

const START_IT = 'Start the agent with `gpgconf --launch gpg-agent`.';
const RESTART_IT = 'Restart the agent with `gpgconf --kill gpg-agent` and `gpgconf --launch gpg-agent`.';

const ERRNO: Record<string, Errno> = {
  ENOENT: { code: 'AGENT_SOCKET_MISSING', why: 'it is not there', fix: START_IT, patience: 'starting' },
  ENOTDIR: { code: 'AGENT_SOCKET_MISSING', why: 'it is not there', fix: START_IT, patience: 'none' },
  ECONNREFUSED: {
    code: 'AGENT_UNREACHABLE',
    why: 'nothing listens there any more',
    fix: START_IT,
    patience: 'starting',
  },
  EAGAIN: {
    code: 'AGENT_CONNECT_TIMEOUT',
    why: 'its queue of connections stayed full',
    fix: 'Try again when fewer clients use the agent, or raise its --listen-backlog.',
    patience: 'busy',
  },
  EACCES: {
    code: 'AGENT_UNREACHABLE',
    why: 'this user may not use it',
    fix: 'Run the bridge as the user who owns the agent.',
    patience: 'none',
  },
};

/** EBUSY: every instance of a Windows pipe is taken for the moment. */
const ALIASES: Record<string, string> = { EPERM: 'EACCES', EBUSY: 'EAGAIN' };

/** What `connect` gives for a file that is no socket: the first on Linux, the others elsewhere. */
const NO_SOCKET_ERRNOS = ['ECONNREFUSED', 'ENOTSOCK', 'EBADF', 'EINVAL', 'EPROTOTYPE'];

/** The failure behind an error of Node's `connect` or `stat`; without one, the socket just closed. */
export function failureOf(path: string, cause: unknown): Failure {
  const errno = errnoOf(cause);
  const known = ERRNO[ALIASES[errno] ?? errno];
  const { code, why, fix, patience } = known ?? {
    code: 'AGENT_UNREACHABLE',
    why: cause instanceof Error ? cause.message : 'the connection closed at once',
    fix: RESTART_IT,
    patience: 'none',
  };
  const what = `can't connect to the agent at ${path}`;
  return { error: new BridgeError(code, { what, why, fix, cause }), patience };
}

/** Whether a failure to connect may mean that a file is at the path instead of a socket. */
export function mayBeFile({ error }: Failure): boolean {
  return NO_SOCKET_ERRNOS.includes(errnoOf(error.cause));
}

function errnoOf(cause: unknown): string {
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? '';
}

/** The agent closed or reset a connection without a greeting after it was sent the nonce. */
export function nonceRefused(path: string, cause?: unknown): BridgeError {
  return new BridgeError('AGENT_NONCE_REFUSED', {
    what: `the agent at ${path} refused the connection`,
    why: 'it closed without a greeting, as it does for a nonce that is not its own: the socket file may be of an agent that is gone',
    fix: RESTART_IT,
    cause,
  });
}

/** What listens on a Cygwin socket's port does not know its nonce. */
export function wrongEcho(path: string): BridgeError {
  return new BridgeError('AGENT_NONCE_REFUSED', {
    what: `the agent at ${path} refused the connection`,
    why: 'what listens on its port did not give its nonce back, so it is another program',
    fix: RESTART_IT,
  });
}

/** The agent closed a connection without a greeting, and there was no nonce that it could have refused. */
export function closedEarly(path: string, cause?: unknown): BridgeError {
  return new BridgeError('AGENT_CLOSED', {
    what: `the agent at ${path} closed the connection`,
    why: 'it did so before its greeting',
    fix: `Try again. ${RESTART_IT}`,
    cause,
  });
}

/** The agent did nothing for the whole connect timeout; `missed` says what it should have done. */
export function overdue(path: string, missed: string): BridgeError {
  return new BridgeError('AGENT_CONNECT_TIMEOUT', {
    what: `can't connect to the agent at ${path}`,
    why: `it did not ${missed} within the connect timeout`,
    fix: RESTART_IT,
  });
}
