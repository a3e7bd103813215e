import { EventEmitter } from 'node:events';
import { BridgeError } from '@gpg-bridge/core/errors';
import type { SocketIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { MuxerStats } from '@gpg-bridge/core/mux/muxer';
import type { ImportResult } from '@gpg-bridge/core/remote/keyring';
import type { SocketType } from '@gpg-bridge/core/socket-type';
import { launcherCommand } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { BridgeParts } from './bridge-parts.ts';
import { type CheckReport, type MendOptions, SILENT } from './check-sockets.ts';
import { askHost, type ServedTarget, serveTarget } from './serve-target.ts';
import { type StartedServer, startServer } from './start-server.ts';
import { inItsWords } from './target-failure.ts';
import type { MadeInTarget } from './target-sockets.ts';
import { LAST_WORDS_MS, within } from './within.ts';

/** How long the server in the target may take to remove its sockets. */
const STOP_TIMEOUT_MS = 3_000;
/** How long the host's programs may take that are not needed any more. */
const HOST_TIMEOUT_MS = 1_000;

interface BridgeEvents {
  lost: [error: BridgeError | undefined];
  end: [error: BridgeError | undefined];
}

/**
 * The host's end of a stdio carrier: a socket server in the target, and for each of its clients a
 * connection to the host's agent. Emits `lost` when it serves nobody any more, and `end` once, with the reason.
 */
export class Bridge extends EventEmitter<BridgeEvents> {
  readonly #served: ServedTarget;
  readonly #exec: ExecStream;
  /** Streams and bytes of its own checks, which are nobody's sessions. */
  #checked = { streams: 0, received: 0, sent: 0 };

  private constructor(served: ServedTarget, { exec, stderr }: StartedServer) {
    super();
    this.#served = served;
    this.#exec = exec;
    served.muxer.on('close', async (error) => {
      // The paths are somebody else's from now on.
      this.pause();
      this.emit('lost', error);
      // What carries a dead line may never notice.
      if (error?.code === 'LINE_SILENT') exec.kill();
      // The command that reached the target says why on its standard error, a moment later.
      if (error?.code === 'TARGET_CLOSED') await within(LAST_WORDS_MS, exec.exited);
      this.emit('end', error && inItsWords(error, stderr()));
    });
  }

  /** What it made in its target. */
  get info(): MadeInTarget {
    const { info } = this.#served.sockets;
    return { ...info, warnings: [...new Set([...info.warnings, ...this.keyProblems])] };
  }

  /** Starts the socket server in the target; resolves when it listens, rejects with what went wrong there. */
  static async start(parts: BridgeParts): Promise<Bridge> {
    const { target, runtime, heartbeat, log, traceLog, signal } = parts;
    const launched = parts.launched ?? (await target.exec(launcherCommand(runtime)));
    const host = askHost(parts);
    try {
      const server = await startServer(target, { exec: launched, runtime, heartbeat, log, traceLog, signal });
      return new Bridge(await serveTarget(server, host, parts), server);
    } catch (error) {
      // GnuPG's programs, which may start an agent, do not outlive a bridge that came to nothing.
      await within(HOST_TIMEOUT_MS, host.settled);
      throw error;
    }
  }

  /** Whether it serves nobody any more. */
  get isLost(): boolean {
    return this.#served.muxer.closed;
  }

  /** Streams and bytes so far. */
  get stats(): MuxerStats {
    const { streams, bytes, held } = this.#served.muxer.stats;
    const { streams: checks, received, sent } = this.#checked;
    return {
      streams: { open: streams.open, total: Math.max(streams.open, streams.total - checks) },
      bytes: { received: bytes.received - received, sent: bytes.sent - sent },
      held,
    };
  }

  /** What is known to keep clients from a socket or from the keys behind it, without asking. */
  get problems(): string[] {
    const { sockets, muxer } = this.#served;
    const problems = [...sockets.problems, ...this.keyProblems];
    return muxer.isOverdue ? [SILENT, ...problems] : problems;
  }

  /** The types of the sockets that clients are known not to get through. */
  get broken(): SocketType[] {
    const { sockets, muxer } = this.#served;
    return muxer.isOverdue ? sockets.info.sockets.map(({ type }) => type) : sockets.broken;
  }

  /** Why sockets could not be made in the target. */
  get failures(): readonly string[] {
    return this.#served.sockets.failures;
  }

  /** Why the target lacks public keys: the sockets are there all the same. */
  get keyProblems(): string[] {
    const problem = this.#served.keySync?.problem;
    return problem === undefined ? [] : [problem];
  }

  /** Forgets the warnings about what happened at the start: they have been told. */
  forgetEvents(): void {
    this.#served.sockets.forgetEvents();
  }

  /** From now on the target gets the host's public keys again when these change. */
  watchKeys(): void {
    void this.#served.keySync?.watch();
  }

  /** Gives the target the host's public keys again. */
  async syncKeys(): Promise<ImportResult> {
    const { keySync } = this.#served;
    if (keySync) return keySync.sync();
    throw new BridgeError('KEY_IMPORT_FAILED', {
      what: "can't give the target public keys",
      why: 'its bridge has no gpg-agent',
      fix: 'Run `gpg-bridge up` with --gpg first.',
    });
  }

  /** Whether there are sockets that could not be made, or keys that the target may lack. */
  get isIncomplete(): boolean {
    const { sockets, keySync } = this.#served;
    return sockets.isIncomplete || keySync?.mayLackKeys === true;
  }

  /**
   * Checks every socket from end to end, as a client in the target would find it. With `mend` it does for what is
   * not right what the start of a bridge would do, and brings public keys that the target may lack.
   */
  async check(mend?: MendOptions): Promise<CheckReport> {
    const { sockets, muxer, keySync } = this.#served;
    const [before, since] = [muxer.stats, performance.now()];
    const report = await sockets.check(mend);
    const after = muxer.stats;
    const asked = Math.min(report.asked, after.streams.total - before.streams.total);
    this.#checked.streams += asked;
    // With nobody else at it, what passed meanwhile was the check's.
    if (before.streams.open === 0 && after.streams.total - before.streams.total === asked) {
      this.#checked.received += after.bytes.received - before.bytes.received;
      this.#checked.sent += after.bytes.sent - before.bytes.sent;
    }
    const keys = mend && keySync ? await keySync.mend(since) : [];
    return { ...report, mended: [...report.mended, ...keys] };
  }

  /** The types of the sockets whose paths lead to this bridge. */
  async inPlace(): Promise<SocketType[]> {
    return this.#served.sockets.inPlace();
  }

  /** Whether one of its sockets is this one. */
  async holds(socket: SocketIdentity): Promise<boolean> {
    return this.#served.sockets.holds(socket);
  }

  /** Until `resume`, the sockets' paths are left to a bridge that takes this one's place. */
  pause(): void {
    this.#served.sockets.pause();
  }

  /** Takes the paths back, if they were taken. */
  resume(): void {
    this.#served.sockets.resume();
  }

  /** Ends every session and the server in the target; resolves when that has removed its sockets. */
  async stop(): Promise<void> {
    this.#served.keySync?.close();
    this.#served.muxer.close();
    this.#exec.stdin.end();
    await within(STOP_TIMEOUT_MS, this.#exec.exited);
    this.#exec.kill();
  }
}
