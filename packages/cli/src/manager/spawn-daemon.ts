import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { BridgeError } from '@gpg-bridge/core/errors';
import { openPlainFile } from '@gpg-bridge/core/fs/plain-file';
import { type BridgeOptions, bridgeWords, hostAgentVariables } from '../bridge-options.ts';
import type { DaemonStatus } from '../daemon/control.ts';
import { daemonEnvironment } from '../daemon/environment.ts';
import type { Predecessor } from '../daemon/handover.ts';
import { ensureStateDirectory } from '../daemon/make-state-dir.ts';
import { type BridgeFiles, unusableState } from '../daemon/state-dir.ts';
import { DAEMON_NODE_OPTIONS } from '../daemon/v8-flags.ts';
import { bridgeKey, type Target } from '../targets/target.ts';

/** The descriptor on which the daemon says that it is ready, or why not. */
const READY_FD = 3;
/** The built command; everything else is built into the same folder. */
const PROGRAM = join(import.meta.dirname, 'gpg-bridge.js');

/** How a daemon is started; everything has a default. */
export interface SpawnOptions {
  program?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Whether its log tells every session. */
  verbose?: boolean | undefined;
  /** The daemon whose place it takes. */
  predecessor?: Predecessor | undefined;
}

/** Starts a detached daemon and resolves when its bridge is ready, or rejects with what went wrong inside. */
export async function spawnDaemon(
  target: Target,
  files: BridgeFiles,
  options: BridgeOptions,
  { program = PROGRAM, signal, predecessor, verbose }: SpawnOptions = {},
): Promise<DaemonStatus> {
  const hadLog = existsSync(files.log);
  // What the runtime itself prints (a crash) goes to the log; everything else is written there as JSON.
  const log = openLog(files.log);
  const child = spawn(
    process.execPath,
    [
      ...DAEMON_NODE_OPTIONS,
      program,
      'serve',
      ...targetWords(target),
      `--pid-file=${files.pid}`,
      `--ready-fd=${READY_FD}`,
      `--expected-bridge=${bridgeKey(target)}`,
      ...predecessorWords(predecessor),
      ...bridgeWords(options),
      ...(verbose ? ['--verbose'] : []),
    ],
    {
      detached: true,
      windowsHide: true,
      stdio: ['ignore', log, log, 'pipe'],
      // Not the person's directory, which it would keep busy; but a command of --exec may depend on it.
      cwd: target.kind === 'exec' ? process.cwd() : '/',
      env: daemonEnvironment({ ...process.env, ...hostAgentVariables(options) }),
    },
  );
  closeSync(log);
  let failure: Error | undefined;
  child.once('error', (error) => {
    failure = error; // the descriptor then ends without a word, or was never made
  });
  const giveUp = () => child.kill();
  signal?.addEventListener('abort', giveUp);
  let heard = '';
  try {
    if (!child.stdio) await once(child, 'spawn'); // which rejects with the reason
    const news = child.stdio[READY_FD] as Readable;
    news.setEncoding('utf8');
    for await (const text of news) heard += text;
  } catch {
    // The same as a descriptor that ends without a word.
  } finally {
    signal?.removeEventListener('abort', giveUp);
  }
  child.unref();
  const { ready, error } = parse(heard);
  if (ready) return ready;
  // What a bridge that never was wrote is all in the error; without one, the log is the only trace.
  if (!hadLog && (error || signal?.aborted)) rmSync(files.log, { force: true });
  if (error) throw BridgeError.fromJSON(error);
  throw new BridgeError('DAEMON_FAILED', {
    what: `can't start the bridge to ${target.name}`,
    why: failure?.message ?? 'its daemon ended without a word',
    fix: `See ${files.log} for what it printed.`,
    cause: failure,
  });
}

function openLog(path: string): number {
  ensureStateDirectory(dirname(path));
  try {
    return openPlainFile(path, 'append');
  } catch (error) {
    throw unusableState(dirname(path), error as Error);
  }
}

function targetWords(target: Target): string[] {
  if (target.kind === 'exec') return []; // the options say it
  const following = target.byName ? ['--by-name'] : [];
  if (target.kind === 'docker') return [`--container=${target.id}`, ...following];
  if (target.kind === 'podman') return [`--target=podman:${target.id}`, ...following];
  return [`--target=${target.spec ?? `${target.kind}:${target.id}`}`];
}

function predecessorWords(predecessor: Predecessor | undefined): string[] {
  if (!predecessor) return [];
  const { sockets, keeps, now, control } = predecessor;
  return [
    `--succeeds=${sockets.join(',') || 'none'}`,
    `--keeps=${keeps.join(',') || 'none'}`,
    ...(control === undefined ? [] : [`--predecessor=${control}`]),
    ...(now ? ['--now'] : []),
  ];
}

function parse(text: string): { ready?: DaemonStatus; error?: unknown } {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
