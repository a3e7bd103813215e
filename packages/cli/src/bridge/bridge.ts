import { EventEmitter } from 'node:events';
import { tableFields } from '@gpg-bridge/core/assuan/answer-table';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { ofKernel, type SocketIdentity, sameIdentity } from '@gpg-bridge/core/fs/socket-identity';
import type { KeyFilter } from '@gpg-bridge/core/gnupg/key-filter';
import { AnswersAhead } from '@gpg-bridge/core/host/answers-ahead';
import { BindAnswers } from '@gpg-bridge/core/host/bind-answers';
import type { HostGpgAgent } from '@gpg-bridge/core/host/gpg-agent';
import { type TargetUse, unrecordedUse } from '@gpg-bridge/core/host/key-use-attempt';
import { learnUsual } from '@gpg-bridge/core/host/learn-usual';
import { exportPublicKeys } from '@gpg-bridge/core/host/public-keys';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import type { MuxerStats } from '@gpg-bridge/core/mux/muxer';
import type { ReadyInfo } from '@gpg-bridge/core/mux/ready';
import type { KeptPath } from '@gpg-bridge/core/remote/keep-path';
import type { ImportResult } from '@gpg-bridge/core/remote/keyring';
import { type SocketSetup, serveSockets } from '@gpg-bridge/core/remote/serve-sockets';
import { WireOperations } from '@gpg-bridge/core/remote/wire-operations';
import { SOCKET_TYPES, type SocketType } from '@gpg-bridge/core/socket-type';
import { bindFields } from '@gpg-bridge/core/ssh/told-binds';
import { printable } from '@gpg-bridge/core/text/escape';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { type CheckReport, checkSockets, type MendOptions, SILENT } from './check-sockets.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { setUpGit } from './git-setup.ts';
import { serveGpgStream } from './gpg-session.ts';
import type { HostAgents } from './host-agents.ts';
import type { Journal } from './journal.ts';
import { KeySync } from './key-sync.ts';
import { serveSshStream } from './ssh-session.ts';
import { LAUNCH_TIMEOUT_MS, notAnswered, type StartedServer, startServer } from './start-server.ts';

/** What a bridge joins, and how. */
export interface BridgeParts {
  target: Target;
  /** The launcher for this runtime, if it runs in the target already. */
  launched?: ExecStream | undefined;
  /** The host's agents, which are looked for while the target starts its runtime. */
  agents: Promise<HostAgents> | HostAgents;
  /** Which public keys the target gets; absent if it gets no gpg-agent. */
  keys?: KeyFilter | undefined;
  /** The environment of the host's gpg, if not this process's own. */
  hostEnv?: NodeJS.ProcessEnv | undefined;
  runtime?: Runtime | undefined;
  takeover?: boolean | undefined;
  /** False: nothing is answered ahead of the host's agent. */
  ahead?: boolean | undefined;
  /** Whether the target's git is told who signs. */
  git?: boolean | undefined;
  /** Says whose a socket in the target is, if another bridge's. */
  holderOf?: ((socket: SocketIdentity) => Promise<string | undefined>) | undefined;
  /** The sockets that an earlier bridge of the same person holds, and which are taken from it. */
  succeeds?: readonly SocketType[] | undefined;
  /** Sockets without which the bridge is of no use. */
  required?: readonly SocketType[] | undefined;
  /** What the target may use keys for, and where that is recorded; everything, and nowhere, if not given. */
  use?: TargetUse | undefined;
  /** When a line that says nothing counts as dead; never, if not given. */
  heartbeat?: HeartbeatTimes | undefined;
  /** Told when the host's keyring has changed. */
  onKeysChange?: (() => Promise<void>) | undefined;
  journal: Journal;
  log: LogCallback;
  /** Where every step of every session is told; absent: nowhere. */
  traceLog?: LogCallback | undefined;
  /** Gives up on a bridge that is not ready yet. */
  signal?: AbortSignal | undefined;
}

/** What a bridge made in its target. */
export interface BridgeInfo {
  runtime: string;
  sockets: { type: SocketType; path: string }[];
  /** What did not work, in words for a person. */
  warnings: string[];
  /** What was done there beside the sockets. */
  notes: string[];
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

/** A target that is served, and what it takes to look after its sockets. */
interface ServedTarget {
  muxer: HostMuxer;
  operations: WireOperations;
  setup: SocketSetup;
  kept: KeptPath[];
  /** Sockets that could not be made. */
  missing: SocketType[];
  info: BridgeInfo;
  /** What holds as long as the sockets do, beside what could not be made. */
  ownWarnings: string[];
  failures: string[];
  /** Absent if the target gets no gpg-agent. */
  keySync: KeySync | undefined;
}

/**
 * The host's end of a stdio carrier: a socket server in the target, and for each of its clients a
 * connection to the host's agent. Emits `end` once, with the reason.
 */
export class Bridge extends EventEmitter<{ end: [error: BridgeError | undefined] }> {
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
      // What carries a dead line may never notice.
      if (error?.code === 'LINE_SILENT') exec.kill();
      // The command that reached the target says why on its standard error, a moment later.
      if (error?.code === 'TARGET_CLOSED') await within(LAST_WORDS_MS, exec.exited);
      this.emit('end', error && inItsWords(error, stderr()));
    });
  }

  get info(): BridgeInfo {
    return this.#served.info;
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

  /** What is known to keep clients from a socket, without asking. */
  get problems(): string[] {
    const { kept, muxer } = this.#served;
    const problems = kept.flatMap(({ problem }) => problem ?? []);
    return muxer.isOverdue ? [SILENT, ...problems] : problems;
  }

  /** Forgets the warnings about what happened at the start: they have been told. */
  forgetEvents(): void {
    const { info, ownWarnings, failures } = this.#served;
    this.#served.info = { ...info, warnings: [...ownWarnings, ...failures], notes: [] };
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

  /** Whether there are sockets that could not be made. */
  get isIncomplete(): boolean {
    return this.#served.missing.length > 0;
  }

  /**
   * Checks every socket from end to end, as a client in the target would find it. With `mend` it does for what is
   * not right what the start of a bridge would do.
   */
  async check(mend?: MendOptions): Promise<CheckReport> {
    const { operations, kept, muxer } = this.#served;
    const before = muxer.stats;
    const made = mend ? await this.#makeMissing(mend) : [];
    const report = await checkSockets(operations, kept, mend);
    const after = muxer.stats;
    const asked = Math.min(report.asked, after.streams.total - before.streams.total);
    this.#checked.streams += asked;
    // With nobody else at it, what passed meanwhile was the check's.
    if (before.streams.open === 0 && after.streams.total - before.streams.total === asked) {
      this.#checked.received += after.bytes.received - before.bytes.received;
      this.#checked.sent += after.bytes.sent - before.bytes.sent;
    }
    return { ...report, mended: [...made, ...report.mended] };
  }

  /** The types of the sockets whose paths lead to this bridge. */
  async inPlace(): Promise<SocketType[]> {
    const { kept } = this.#served;
    const found = await Promise.all(kept.map((socket) => socket.isInPlace().catch(() => false)));
    return kept.filter((_socket, i) => found[i]).map(({ type }) => type);
  }

  /** Whether one of its sockets is this one. */
  async holds(socket: SocketIdentity): Promise<boolean> {
    const { operations, kept } = this.#served;
    if (ofKernel(operations.facts.boot, [socket]).length === 0) return false;
    const own = await Promise.all(
      kept.map(async (one) => ((await one.isInPlace()) ? operations.lstat(one.path) : undefined)),
    );
    return own.some((facts) => facts && sameIdentity(facts.identity, socket));
  }

  /** Until `resume`, the sockets' paths are left to a bridge that takes this one's place. */
  pause(): void {
    for (const socket of this.#served.kept) socket.pause();
  }

  /** Takes the paths back, if they were taken. */
  resume(): void {
    for (const socket of this.#served.kept) socket.resume();
  }

  /** Tries the sockets again that could not be made; resolves to what was mended. */
  async #makeMissing({ takeover, log }: MendOptions): Promise<string[]> {
    const { operations, setup, missing, kept, info } = this.#served;
    if (missing.length === 0) return [];
    const again = await serveSockets(operations, {
      ...setup,
      gpg: missing.includes('gpg-agent'),
      ssh: missing.includes('ssh-agent'),
      takeover,
      log,
    });
    kept.push(...again.kept);
    this.#served.missing = again.missing;
    const failed = again.failures.map(({ message }) => printable(message, MAX_WARNING));
    const warnings = [...new Set([...this.#served.ownWarnings, ...again.lasting, ...failed])];
    this.#served.info = { ...info, sockets: shownSockets(kept), warnings };
    return again.sockets.map(({ path }) => `made the socket ${printable(path)}, which was missing`);
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

/** How long the server in the target may take to remove its sockets. */
const STOP_TIMEOUT_MS = 3_000;
/** A message about a target, which may quote it. */
const MAX_WARNING = 1_000;
/** How long a command that ended may take for its last words. */
const LAST_WORDS_MS = 500;
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
  parts: BridgeParts,
): Promise<ServedTarget> {
  const { target, use, journal, heartbeat, log, takeover, succeeds, holderOf, signal } = parts;
  const muxer = new HostMuxer({ input: exec.stdout, output: exec.stdin }, { heartbeat });
  let ended: BridgeError | undefined;
  const ready = new Promise<ReadyInfo>((resolve, reject) => {
    muxer.once('ready', resolve);
    muxer.once('close', (error) => {
      ended ??= error;
      reject(ended ?? givenUp());
    });
  });
  const late = setTimeout(() => {
    ended = notAnswered(target, `its socket server was not ready within ${LAUNCH_TIMEOUT_MS / 1000} s`);
    muxer.close();
  }, LAUNCH_TIMEOUT_MS);
  ready.catch(() => {}); // it may fail before the agents are known, and is awaited after them
  muxer.on('error-message', (text) => log(`the target says: ${text}`, 'error'));
  const giveUp = () => muxer.close();
  signal?.addEventListener('abort', giveUp);
  try {
    const { gpg, ssh, sshKeys } = await host.agents;
    const shared = { use: use ?? unrecordedUse(), journal, log, traceLog: parts.traceLog };
    const ahead =
      gpg && parts.ahead !== false
        ? answersAhead(muxer, gpg, shared.use.grant?.keygrips !== undefined, log)
        : undefined;
    const gpgService = gpg && {
      ...shared,
      agent: gpg,
      ahead,
      connections: new ConnectionLimit(),
    };
    const binds =
      parts.ahead === false
        ? undefined
        : new BindAnswers((answerType) => muxer.sendTable('ssh-agent', bindFields(answerType)));
    const sshService = ssh && {
      ...shared,
      agent: ssh,
      binds,
      connections: new ConnectionLimit(),
      keys: sshKeys,
    };
    muxer.on('stream', (stream, socketType) => {
      if (socketType === 'gpg-agent' && gpgService) serveGpgStream(stream, gpgService);
      else if (socketType === 'ssh-agent' && sshService) serveSshStream(stream, sshService);
      else stream.discard();
    });
    const operations = new WireOperations(muxer, await ready);
    clearTimeout(late);
    // Before there are sockets, so that the first client is served as all others are.
    await ahead?.learn();
    binds?.learn(ssh?.bindAnswer);
    const setup: SocketSetup = {
      gpg: gpg !== undefined,
      ssh: ssh !== undefined,
      keys: gpg && host.keys,
      takeover,
      succeeds,
      hostSockets: await host.hostSockets,
      sshDirectory: target.sshDirectory,
      holderOf,
      log,
    };
    // Keys that a person named and that are not there fail the bridge before it touches anything.
    if (Array.isArray(parts.keys)) await setup.keys;
    const { kept, warnings, lasting, failures, missing } = await serveSockets(operations, setup);
    if (muxer.closed) throw ended ?? givenUp();
    const required = parts.required?.find((type) => missing.includes(type));
    if (kept.length === 0 || required) throw noSockets(target, failures);
    const isKept = (wanted: SocketType) => kept.some(({ type }) => type === wanted);
    const usable = { gpg: isKept('gpg-agent'), ssh: isKept('ssh-agent'), keygrips: use?.grant?.keygrips };
    const git = parts.git ? await setUpGit(operations, usable, parts.hostEnv, log) : undefined;
    const info = {
      runtime,
      sockets: shownSockets(kept),
      warnings: [...warnings, ...(git?.warnings ?? [])],
      notes: git?.notes ?? [],
    };
    const given = gpg && (await host.keys?.catch(() => undefined));
    const { keys: filter, hostEnv: env, onKeysChange: onChange } = parts;
    const keySync = given && filter && new KeySync({ operations, filter, given, env, onChange, log });
    const told = failures.map(({ message }) => printable(message, MAX_WARNING));
    return { muxer, operations, setup, kept, missing, info, ownWarnings: lasting, failures: told, keySync };
  } catch (error) {
    muxer.close();
    exec.kill();
    throw inItsWords(toBridgeError(error, `can't start the bridge to ${target.name}`), stderr());
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', giveUp);
  }
}

/** What the target's end answers ahead: sent to it whenever it changes, learned anew from every other agent. */
function answersAhead(muxer: HostMuxer, gpg: HostGpgAgent, narrowed: boolean, log: LogCallback) {
  const answers: AnswersAhead = new AnswersAhead({
    log,
    narrowed,
    onChange: () => muxer.sendTable('gpg-agent', tableFields(answers.table)),
  });
  return { answers, learn: () => learnUsual(gpg, answers, log) };
}

/** Always in the same order, whichever was made first. */
function shownSockets(kept: readonly KeptPath[]): BridgeInfo['sockets'] {
  return SOCKET_TYPES.flatMap((wanted) =>
    kept.filter(({ type }) => type === wanted).map(({ type, path }) => ({ type, path: printable(path) })),
  );
}

function givenUp(): Error {
  return new Error('it was given up before it was ready');
}

/** Why a target got no socket at all, or not the one that was asked for. */
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
