import type { Socket } from 'node:net';
import { BridgeError } from '../errors.ts';
import type { SocketIdentity } from '../fs/socket-identity.ts';
import { killAgent, listDir } from '../gnupg/gpgconf.ts';
import type { GnupgOptions } from '../gnupg/programs.ts';
import { type LogCallback, noLog } from '../log.ts';
import { SessionTrace } from '../machine/session-trace.ts';
import type { CommandExecutor, OpenedChannel } from './agent-channel.ts';
import { CarrierChannel, type CarrierChannelOptions } from './carrier-channel.ts';
import { ClientSession } from './client-session.ts';
import { listenInTarget } from './listen.ts';
import { AheadTable } from './told-lines.ts';

/** How a RequestProxy is set up; everything has a default. */
export interface RequestProxyConfig extends GnupgOptions {
  logCallback?: LogCallback;
  /** Whether every state of a session is logged, asked when it begins; not unless said. */
  isTracing?: () => boolean;
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
  /** Says that the host has not answered for a while: then nothing is answered in its place. */
  isOverdue?: () => boolean;
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
  /** Why the path leads elsewhere by now, as far as that is known. */
  readonly problem: string | undefined;
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

  const table = new AheadTable(config.isOverdue);
  const timeoutMs = config.carrierTimeoutMs ?? CARRIER_TIMEOUT_MS;
  const within: CarrierChannelOptions['within'] = (opening, giveBack) => inTime(opening, giveBack, timeoutMs);

  let accepted = 0;
  const accept = (socket: Socket): void => {
    accepted += 1;
    const trace = config.isTracing?.() ? new SessionTrace(`client ${accepted}`, 'connected', log) : undefined;
    const onSession = (sessionId: string) => trace?.is(sessionId);
    const session = new ClientSession({
      socket,
      openChannel: () => openChannel({ executor: deps.commandExecutor, table, within, log, onSession }),
      table,
      maxBlockBytes: config.maxBlockBytes ?? MAX_BLOCK_BYTES,
      log,
      trace,
      onEnded: () => {
        trace?.ended();
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
    get problem() {
      return listener.problem;
    },
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

/** A client is greeted from the table, and the session opened when it is needed; without a table it is opened now. */
async function openChannel(options: CarrierChannelOptions): Promise<OpenedChannel> {
  const channel = new CarrierChannel(options);
  const greeting = options.table.isOn ? options.table.greeting : await channel.open();
  return { channel, greeting };
}

/** What comes after the timeout is given back. */
async function inTime<T>(opening: Promise<T>, giveBack: (late: T) => void, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(silent(timeoutMs)), timeoutMs);
    timer.unref(); // as long as anybody waits, the client's socket keeps the process alive
  });
  try {
    return await Promise.race([opening, overdue]);
  } catch (error) {
    opening.then(giveBack, () => {});
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
