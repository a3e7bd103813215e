import { EventEmitter } from 'node:events';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { ofKernel, type SocketIdentity, sameIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { type TargetUse, unrecordedUse } from '@gpg-bridge/core/host/key-use-rules';
import { exportPublicKeys } from '@gpg-bridge/core/host/public-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import type { MuxerStats } from '@gpg-bridge/core/mux/muxer';
import type { ReadyInfo } from '@gpg-bridge/core/mux/ready';
import { serveSockets } from '@gpg-bridge/core/remote/serve-sockets';
import { WireOperations } from '@gpg-bridge/core/remote/wire-operations';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { printable } from '@gpg-bridge/core/text/escape';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { serveGpgStream } from './gpg-session.ts';
import type { HostAgents } from './host-agents.ts';
import type { Journal } from './journal.ts';
import { serveSshStream } from './ssh-session.ts';
import { type StartedServer, startServer } from './start-server.ts';

/** What a bridge joins, and how. */
export interface BridgeParts {
  target: Target;
  /** The launcher for this runtime, if it runs in the target already. */
  launched?: ExecStream | undefined;
  /** The host's agents, which are looked for while the target starts its runtime. */
  agents: Promise<HostAgents> | HostAgents;
  sshKeys?: readonly string[] | undefined;
  /** Which public keys the target gets; absent if it gets no gpg-agent. */
  keys?: KeyFilter | undefined;
  /** The environment of the host's gpg, if not this process's own. */
  hostEnv?: NodeJS.ProcessEnv | undefined;
  runtime?: Runtime | undefined;
  takeover?: boolean | undefined;
  /** Says whose a socket in the target is, if another bridge's. */
  holderOf?: ((socket: SocketIdentity) => Promise<string | undefined>) | undefined;
  /** What the target may use keys for, and where that is recorded; everything, and nowhere, if not given. */
  use?: TargetUse | undefined;
  journal: Journal;
  log: LogCallback;
  /** Gives up on a bridge that is not ready yet. */
  signal?: AbortSignal | undefined;
}

/** What a bridge made in its target. */
export interface BridgeInfo {
  runtime: string;
  sockets: { type: SocketType; path: string }[];
  /** What did not work, in words for a person. */
  warnings: string[];
}

/** What the host finds out while the target starts its runtime. */
function askHost(parts: BridgeParts) {
  const agents = Promise.resolve(parts.agents);
  const keys = parts.keys && exportPublicKeys(parts.keys, parts.hostEnv ? { env: parts.hostEnv } : {});
  const hostSockets = agents.then(async ({ gpg, ssh }) =>
    (await Promise.all([gpg?.identities() ?? [], ssh?.identities() ?? []])).flat(),
  );
  // None of them is unhandled if another one fails.
  const settled = Promise.allSettled([agents, keys, hostSockets]);
  return { agents, keys, hostSockets, settled };
}

/** What the host knows of itself. */
type HostSide = ReturnType<typeof askHost>;

/**
 * The host's end of a stdio carrier: a socket server in the target, and for each of its clients a
 * connection to the host's agent. Emits `end` once, with the reason.
 */
export class Bridge extends EventEmitter<{ end: [error: BridgeError | undefined] }> {
  readonly #muxer: HostMuxer;
  readonly #exec: ExecStream;
  readonly info: BridgeInfo;

  private constructor(
    muxer: HostMuxer,
    exec: ExecStream,
    info: BridgeInfo,
    /** Whether one of its sockets is this one. */
    readonly holds: (socket: SocketIdentity) => Promise<boolean>,
  ) {
    super();
    this.#muxer = muxer;
    this.#exec = exec;
    this.info = info;
    muxer.on('close', (error) => this.emit('end', error));
  }

  /** Starts the socket server in the target; resolves when it listens, rejects with what went wrong there. */
  static async start(parts: BridgeParts): Promise<Bridge> {
    const { target, runtime, log, signal } = parts;
    const launched = parts.launched ?? (await target.exec(launcherCommand(runtime)));
    const host = askHost(parts);
    try {
      const server = await startServer(target, { exec: launched, runtime, log, signal });
      const { muxer, info, holds } = await serveTarget(server, host, parts);
      return new Bridge(muxer, server.exec, info, holds);
    } catch (error) {
      // GnuPG's programs, which may start an agent, do not outlive a bridge that came to nothing.
      await within(HOST_TIMEOUT_MS, host.settled);
      throw error;
    }
  }

  /** Streams and bytes so far. */
  get stats(): MuxerStats {
    return this.#muxer.stats;
  }

  /** Ends every session and the server in the target; resolves when that has removed its sockets. */
  async stop(): Promise<void> {
    this.#muxer.close();
    this.#exec.stdin.end();
    await within(STOP_TIMEOUT_MS, this.#exec.exited);
    this.#exec.kill();
  }
}

/** How long the server in the target may take to remove its sockets. */
const STOP_TIMEOUT_MS = 3_000;
/** How long the host's programs may take that are not needed any more. */
const HOST_TIMEOUT_MS = 1_000;

/** Waits for something that never rejects, but not for ever. */
async function within(timeoutMs: number, something: Promise<unknown>): Promise<void> {
  let late: NodeJS.Timeout | undefined;
  await Promise.race([
    something,
    new Promise((resolve) => {
      late = setTimeout(resolve, timeoutMs);
    }),
  ]);
  clearTimeout(late);
}

/** Makes the sockets in the target through its server, and joins their clients with the host's agents. */
async function serveTarget(
  { exec, runtime, stderr }: StartedServer,
  host: HostSide,
  { target, use, journal, log, sshKeys, takeover, holderOf, signal }: BridgeParts,
): Promise<{ muxer: HostMuxer; info: BridgeInfo; holds: Bridge['holds'] }> {
  const muxer = new HostMuxer({ input: exec.stdout, output: exec.stdin });
  let ended: BridgeError | undefined;
  const ready = new Promise<ReadyInfo>((resolve, reject) => {
    muxer.once('ready', resolve);
    muxer.once('close', (error) => {
      ended = error;
      reject(error ?? givenUp());
    });
  });
  ready.catch(() => {}); // it may fail before the agents are known, and is awaited after them
  muxer.on('error-message', (text) => log(`the target says: ${text}`, 'error'));
  const giveUp = () => muxer.close();
  signal?.addEventListener('abort', giveUp);
  try {
    const { gpg, ssh } = await host.agents;
    const shared = { use: use ?? unrecordedUse(), journal, log };
    const gpgService = gpg && { ...shared, agent: gpg, connections: new ConnectionLimit() };
    const sshService = ssh && { ...shared, agent: ssh, connections: new ConnectionLimit(), keys: sshKeys };
    muxer.on('stream', (stream, socketType) => {
      if (socketType === 'gpg-agent' && gpgService) serveGpgStream(stream, gpgService);
      else if (socketType === 'ssh-agent' && sshService) serveSshStream(stream, sshService);
      else stream.discard();
    });
    const operations = new WireOperations(muxer, await ready);
    const { sockets, warnings, failures } = await serveSockets(operations, {
      gpg: gpg !== undefined,
      ssh: ssh !== undefined,
      keys: gpg && host.keys,
      takeover,
      hostSockets: await host.hostSockets,
      sshDirectory: target.sshDirectory,
      holderOf,
      log,
    });
    if (muxer.closed) throw ended ?? givenUp();
    if (sockets.length === 0) throw noSockets(target, failures);
    const shown = sockets.map(({ type, path }) => ({ type, path: printable(path) }));
    const holds = async (socket: SocketIdentity) => {
      if (ofKernel(operations.facts.boot, [socket]).length === 0) return false;
      const own = await Promise.all(sockets.map(({ path }) => operations.lstat(path)));
      return own.some((facts) => facts && sameIdentity(facts.identity, socket));
    };
    return { muxer, info: { runtime, sockets: shown, warnings }, holds };
  } catch (error) {
    muxer.close();
    exec.kill();
    throw inItsWords(toBridgeError(error, `can't start the bridge to ${target.name}`), stderr());
  } finally {
    signal?.removeEventListener('abort', giveUp);
  }
}

function givenUp(): Error {
  return new Error('it was given up before it was ready');
}

/** Why a target got no socket at all. */
function noSockets(target: Target, [first, second]: readonly BridgeError[]): BridgeError {
  return new BridgeError('TARGET_ERROR', {
    what: `in ${target.name}: ${printable(first?.what ?? 'no socket was made')}`,
    why: oneLine([first?.why ?? '', ...(second ? [`${second.what}: ${second.why}`] : [])].join('; ')),
    fix: oneLine([...new Set([first?.fix, second?.fix, ...homeHint(first)])].filter(Boolean).join(' ')),
    cause: first,
  });
}

/** A user who can't write to the home that the target gives them can be given another. */
function homeHint(failure: BridgeError | undefined): string[] {
  return failure?.code === 'SOCKET_DIR_UNUSABLE' ? ['Or give that user a place with --home DIR.'] : [];
}

/** Words of a target, which may come from a program that printed several lines. */
function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*[\r\n]+\s*/g, '; '), 1_000);
}

/** A target that closed without a word in the protocol often said why on its standard error. */
function inItsWords(error: BridgeError, lastWords: string): BridgeError {
  if (error.code !== 'TARGET_CLOSED' || !lastWords) return error;
  return new BridgeError(error.code, { what: error.what, why: lastWords, fix: error.fix, cause: error });
}
