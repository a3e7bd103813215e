import { BridgeError } from '@gpg-bridge/core/errors';
import type { LogCallback } from '@gpg-bridge/core/log';
import type { HeartbeatTimes } from '@gpg-bridge/core/mux/heartbeat';
import { printable } from '@gpg-bridge/core/text/escape';
import {
  parseLauncherLine,
  type Runtime,
  SERVER_CONFIG,
  serverPayload,
  type WantedProgram,
} from '@gpg-bridge/socket-server';
import type { ExecStream } from '../engine/engine.ts';
import type { Target } from '../targets/target.ts';
import { frameWords } from './frame-words.ts';
import { readLines } from './log-lines.ts';
import { readOpening } from './read-opening.ts';
import { serverProgram, serverSource } from './server-source.ts';

/** A socket server that runs in a target and is about to speak frames. */
export interface StartedServer {
  exec: ExecStream;
  runtime: Runtime;
  /** The last lines it printed on its standard error. */
  stderr(): string;
}

/** How the server is started. */
export interface StartOptions {
  /** The launcher, which runs in the target. */
  exec: ExecStream;
  /** The only runtime that the launcher tries, if it was told one. */
  runtime?: Runtime | undefined;
  /** When the server counts the host as gone, if not as usual. */
  heartbeat?: HeartbeatTimes | undefined;
  log: LogCallback;
  /** Where every frame is told that the server sends or receives; absent: nowhere. */
  traceLog?: LogCallback | undefined;
  /** Gives up. */
  signal?: AbortSignal | undefined;
}

/** A target that is only slow is given this long to run a shell, and again to start the server. */
export const LAUNCH_TIMEOUT_MS = 60_000;
/** What shells and container runtimes exit with when a program can't be run or is not there; kubectl exits with 1. */
const NOT_RUN: ReadonlySet<number | null> = new Set([126, 127]);
const NO_SHELL = /\bsh\b.*(?:not found|no such file)/i;

/** Sends a launcher the server for the runtime that it finds. */
export async function startServer(target: Target, options: StartOptions): Promise<StartedServer> {
  const { exec, traceLog } = options;
  let noShell = '';
  const stderr = readLines(exec.stderr, (line) => {
    const frame = traceLog && frameWords(line);
    if (frame) {
      traceLog(`target: ${frame}`, 'debug');
      return false;
    }
    if (NO_SHELL.test(line)) noShell ||= line;
    options.log(`target: ${line}`, 'info');
    return true;
  });
  const patience = new AbortController();
  const giveUp = () => patience.abort(notAnswered(target, 'it was told not to wait for it'));
  const late = setTimeout(
    () => patience.abort(notAnswered(target, `nothing came within ${LAUNCH_TIMEOUT_MS / 1000} s`)),
    LAUNCH_TIMEOUT_MS,
  );
  options.signal?.addEventListener('abort', giveUp);
  try {
    if (options.signal?.aborted) giveUp();
    const found = await readOpening(exec.stdout, parseLauncherLine, patience.signal);
    if (Buffer.isBuffer(found)) throw await notStarted(target, exec, found, stderr, () => noShell);
    if (found.runtime === 'none') throw noRuntime(target, options.runtime, whyNoProgram(found.detail));
    if (found.noise.length > 0) options.log(`target printed ${found.noise.length} bytes first`, 'debug');
    // The line may have been there before anybody gave up.
    patience.signal.throwIfAborted();
    const source = sourceOf(target, found.runtime, found.program);
    const config = { ...SERVER_CONFIG, ...options.heartbeat, trace: traceLog ? 1 : 0 };
    exec.stdin.write(serverPayload(found.runtime, config, source, found.program?.form));
    return { exec, runtime: found.runtime, stderr };
  } catch (error) {
    exec.kill();
    throw error;
  } finally {
    clearTimeout(late);
    options.signal?.removeEventListener('abort', giveUp);
  }
}

/** Why a target said nothing that a launcher would say. */
async function notStarted(
  target: Target,
  exec: ExecStream,
  printed: Buffer,
  stderr: () => string,
  noShell: () => string,
): Promise<BridgeError> {
  const { status } = await exec.exited;
  const said = stderr() || printable(Buffer.from(printed.toString('latin1').trimEnd(), 'latin1'), 200);
  // Engines and shells say it in their own words, Docker in the place of output; what they exit with is the same for
  // other reasons, too.
  const shellMissing = noShell() || (NO_SHELL.test(said) ? said : '');
  if ((NOT_RUN.has(status) || target.kind === 'k8s') && shellMissing)
    return new BridgeError('TARGET_NO_RUNTIME', {
      what: `nothing in ${target.name} can run the bridge's end`,
      why: shellMissing,
      fix: 'Use an image with a shell; a static busybox is enough.',
    });
  if (printed.length > 0 && status === 0) {
    return new BridgeError('NOT_A_BRIDGE', {
      what: `${target.name} did not start its end of the bridge`,
      why: `it printed "${said}"`,
      fix: 'Make sure that the command there runs what it is given, and prints nothing of its own.',
    });
  }
  return new BridgeError(target.reachedByCommand ? 'TARGET_NOT_FOUND' : 'TARGET_CLOSED', {
    what: `can't run a command in ${target.name}`,
    why: said || `it ended with status ${status ?? 'unknown'} before it said anything`,
    fix: target.shell ? `See whether \`${target.shell}\` works.` : 'See whether the command works by itself.',
  });
}

/** The error for a target that says nothing. */
export function notAnswered(target: Target, why: string): BridgeError {
  return new BridgeError('TARGET_NOT_RUNNING', {
    what: `${target.name} does not answer`,
    why,
    fix: target.shell ? `See whether \`${target.shell}\` works.` : 'See whether the command works by itself.',
  });
}

/** What a launcher is sent. */
function sourceOf(target: Target, runtime: Runtime, wanted: WantedProgram | undefined): Buffer {
  if (runtime !== 'native') return serverSource(runtime);
  const program = wanted && serverProgram(wanted.architecture);
  if (program) return program;
  throw noRuntime(
    target,
    undefined,
    `this copy of GPG Bridge was built without its program for ${wanted?.architecture}`,
  );
}

/** Why there is no program for a target that has no language, from what its launcher said. */
function whyNoProgram(detail: string): string {
  if (detail.startsWith('place'))
    return "there is no directory that it may write to and run the bridge's program from";
  return `the bridge's own program is for Linux on x86-64 and arm64, and this is ${printable(Buffer.from(detail), 60) || 'something else'}`;
}

function noRuntime(target: Target, runtime: Runtime | undefined, whyNoProgram: string): BridgeError {
  const forced = runtime === 'native' ? whyNoProgram : `it has no usable ${runtime}`;
  return new BridgeError('TARGET_NO_RUNTIME', {
    what: `nothing in ${target.name} can run the bridge's end`,
    why: runtime ? forced : `it has neither Perl 5 nor Node.js 18, or newer, and ${whyNoProgram}`,
    fix: runtime
      ? 'Leave --runtime out, or install it there.'
      : 'Install one of them there: `apt-get install perl-base`, `apk add perl` or `dnf install perl-interpreter`.',
  });
}
