import type { Socket } from 'node:net';
import { BridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import { killAgent, listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type LogCallback, noLog } from '../log.ts';
import { type CommandExecutor, type OpenedChannel, openCarrierChannel } from './agent-channel.ts';
import { ClientSession } from './client-session.ts';
import { listenInTarget } from './listen.ts';

/** How a RequestProxy is set up; everything has a default. */
export interface RequestProxyConfig extends GnupgOptions {
  logCallback?: LogCallback;
  /** Take the socket over from another forward that holds it. */
  takeover?: boolean;
  /** The host's own agent sockets: at one of these we never listen. */
  hostSockets?: readonly SocketIdentity[];
  /** How long the host may take to open a session before the client is told that it is unavailable. */
  carrierTimeoutMs?: number;
  /** Bytes of one inquiry block; 64 MiB unless said. */
  maxBlockBytes?: number;
  /** Told how many clients are connected, whenever that changes. */
  onSessionsChanged?: (open: number) => void;
}

/** What reaches the host, and what a test may put in place of the real thing. */
export interface RequestProxyDeps {
  commandExecutor: CommandExecutor;
  getSocketPath?: () => Promise<string>;
  stopOwnAgent?: () => Promise<void>;
}

/** A running RequestProxy. */
export interface RequestProxyInstance {
  readonly socketPath: string;
  /** Ends every session and removes the socket, if it is still ours. */
  stop(): Promise<void>;
}

/** Connecting and greeting may take the host 5 s each, and checking its agent as much again. */
const CARRIER_TIMEOUT_MS = 20_000;
const MAX_BLOCK_BYTES = 64 * 1024 * 1024;

/** Listens where the target's gpg looks for its agent, and takes every client's commands to the host. */
export async function startRequestProxy(
  config: RequestProxyConfig,
  deps: RequestProxyDeps,
): Promise<RequestProxyInstance> {
  const log = config.logCallback ?? noLog;
  const sessions = new Set<ClientSession>();
  const path = await (deps.getSocketPath ?? (() => listDir('agent-socket', config)))();

  const accept = (socket: Socket): void => {
    const session = new ClientSession({
      socket,
      openChannel: () => openChannel(deps.commandExecutor, config.carrierTimeoutMs ?? CARRIER_TIMEOUT_MS),
      maxBlockBytes: config.maxBlockBytes ?? MAX_BLOCK_BYTES,
      log,
      onEnded: () => {
        sessions.delete(session);
        config.onSessionsChanged?.(sessions.size);
      },
    });
    sessions.add(session);
    config.onSessionsChanged?.(sessions.size);
    session.start();
  };

  const listener = await listenInTarget({
    path,
    type: 'gpg-agent',
    onConnection: accept,
    allowHalfOpen: true,
    log,
    takeover: config.takeover ?? false,
    hostSockets: config.hostSockets ?? [],
    stopOwnAgent: deps.stopOwnAgent ?? (() => killAgent(config)),
  });

  return {
    socketPath: listener.path,
    async stop() {
      try {
        await listener.close();
      } finally {
        // After the listener: it may accept another client while it closes.
        for (const session of sessions) session.stop();
      }
    },
  };
}

/** Opens a session on the host; one that comes after the timeout is given back. */
async function openChannel(executor: CommandExecutor, timeoutMs: number): Promise<OpenedChannel> {
  const opening = openCarrierChannel(executor);
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(silent(timeoutMs)), timeoutMs);
    timer.unref(); // as long as anybody waits, the client's socket keeps the process alive
  });
  try {
    return await Promise.race([opening, overdue]);
  } catch (error) {
    opening.then(
      ({ channel }) => channel.close(),
      () => {},
    );
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function silent(timeoutMs: number): BridgeError {
  return new BridgeError('CARRIER_FAILED', {
    what: 'the host did not answer',
    why: `it opened no session within ${timeoutMs} ms`,
    fix: 'Check the connection to the host, then try again.',
  });
}
