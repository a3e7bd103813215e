import { EventEmitter } from 'node:events';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { exportPublicKeys, type PublicKeys } from '@gpg-bridge/core/host/public-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import type { MuxerStats } from '@gpg-bridge/core/mux/muxer';
import type { ReadyInfo } from '@gpg-bridge/core/mux/ready';
import type { Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { serveGpgStream } from './gpg-session.ts';
import type { HostAgents } from './host-agents.ts';
import type { Journal } from './journal.ts';
import { launchServer } from './launch.ts';
import { serveSshStream } from './ssh-session.ts';
import { startServer } from './start-server.ts';

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
  journal: Journal;
  log: LogCallback;
  /** Gives up on a bridge that is not ready yet. */
  signal?: AbortSignal | undefined;
}

/**
 * The host's end of a stdio carrier: a socket server in the target, and for each of its clients a
 * connection to the host's agent. Emits `end` once, with the reason.
 */
export class Bridge extends EventEmitter<{ end: [error: BridgeError | undefined] }> {
  readonly #muxer: HostMuxer;
  readonly #exec: ExecStream;
  readonly info: ReadyInfo;

  private constructor(muxer: HostMuxer, exec: ExecStream, info: ReadyInfo) {
    super();
    this.#muxer = muxer;
    this.#exec = exec;
    this.info = info;
    muxer.on('close', (error) => this.emit('end', error));
  }

  /** Starts the socket server in the target; resolves when it listens, rejects with what went wrong there. */
  static async start(parts: BridgeParts): Promise<Bridge> {
    const { target, journal, log } = parts;
    const launched = parts.launched ?? (await launchServer(target, parts.runtime));
    // Everything that the host has to find out is asked for while the target starts its runtime.
    const agents = Promise.resolve(parts.agents);
    const exported = parts.keys && exportPublicKeys(parts.keys, parts.hostEnv ? { env: parts.hostEnv } : {});
    const identities = agents.then(({ gpg, ssh }) =>
      Promise.all([gpg?.identities() ?? [], ssh?.identities() ?? []]),
    );
    const asked = Promise.allSettled([agents, exported, identities]); // none of them is unhandled if others fail
    const { exec, runtime, stderr } = await startServer(target, {
      exec: launched,
      runtime: parts.runtime,
      async config() {
        const { gpg, ssh } = await agents;
        return {
          gpg: gpg !== undefined,
          ssh: ssh !== undefined,
          takeover: parts.takeover ?? false,
          trust: (gpg && (await exported)?.trust) ?? [],
          hostSockets: (await identities).flat(),
          ...(target.sshDirectory ? { sshDir: target.sshDirectory } : {}),
        };
      },
      log,
      signal: parts.signal,
    }).catch(async (error: unknown) => {
      // GnuPG's programs, which may start an agent, do not outlive a bridge that came to nothing.
      await within(HOST_TIMEOUT_MS, asked);
      throw error;
    });
    const { gpg, ssh } = await agents;
    const muxer = new HostMuxer(
      { input: exec.stdout, output: exec.stdin },
      { socketTypes: [...(gpg ? ['gpg-agent'] : []), ...(ssh ? ['ssh-agent'] : [])] },
    );
    muxer.on('error-message', (text) => log(`the target says: ${text}`, 'error'));
    muxer.on('stream', (stream, socketType) => {
      if (socketType === 'gpg-agent' && gpg) serveGpgStream(stream, gpg, journal, log);
      else if (ssh) void serveSshStream(stream, ssh, parts.sshKeys, journal, log);
      else stream.finish();
    });
    const giveUp = () => muxer.close();
    parts.signal?.addEventListener('abort', giveUp);
    try {
      let ended: BridgeError | undefined;
      const info = await new Promise<ReadyInfo>((resolve, reject) => {
        muxer.once('ready', resolve);
        muxer.once('close', (error) => {
          ended = error;
          reject(error ?? new Error('it was given up before it was ready'));
        });
        if (gpg) void sendKeys(muxer, exported, log).catch(reject);
      });
      // What broke it may have come together with READY.
      if (muxer.closed) throw ended ?? new Error('it was given up as it got ready');
      return new Bridge(muxer, exec, { ...info, runtime: info.runtime ?? runtime });
    } catch (error) {
      muxer.close();
      exec.kill();
      throw inItsWords(toBridgeError(error, `can't start the bridge to ${target.name}`), target, stderr());
    } finally {
      parts.signal?.removeEventListener('abort', giveUp);
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

/** The first keys go before READY, which waits for them; the rest of a large keyring follows by itself. */
async function sendKeys(
  muxer: HostMuxer,
  exported: Promise<PublicKeys> | undefined,
  log: LogCallback,
): Promise<void> {
  const { unsent } = await muxer.sendPublicKeys((await exported)?.keys ?? Buffer.alloc(0));
  if (unsent > 0) log(`${unsent} bytes of public keys could not be sent to the target`, 'warn');
}

/**
 * A target that closed without a word in the protocol often said why on its standard error; one that
 * failed in words of the same form as ours needs no others around them.
 */
function inItsWords(error: BridgeError, target: Target, lastWords: string): BridgeError {
  if (error.code === 'TARGET_CLOSED' && lastWords) {
    return new BridgeError(error.code, { what: error.what, why: lastWords, fix: error.fix, cause: error });
  }
  const [, what, why, fix] = /^(.+?): (.+?)\. ([A-Z].*\.)$/s.exec(error.why) ?? [];
  if (error.code !== 'TARGET_ERROR' || !what || !why || !fix) return error;
  return new BridgeError(error.code, { what: `in ${target.name}: ${what}`, why, fix, cause: error });
}
