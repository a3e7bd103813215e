import { performance } from 'node:perf_hooks';
import { BridgeError, toBridgeError } from '@gpg-bridge/core/errors';
import { noLog } from '@gpg-bridge/core/log';
import { HostMuxer } from '@gpg-bridge/core/mux/host-muxer';
import type { ReadyInfo } from '@gpg-bridge/core/mux/ready';
import { WireOperations } from '@gpg-bridge/core/remote/wire-operations';
import { launcherCommand, type Runtime } from '@gpg-bridge/socket-server';
import { LAUNCH_TIMEOUT_MS, notAnswered, startServer } from '../bridge/start-server.ts';
import { inHome } from '../targets/home.ts';
import type { Target } from '../targets/target.ts';

/** A server of doctor's own in a target, which makes no sockets and ends with doctor. */
export interface TargetConnection {
  operations: WireOperations;
  runtime: Runtime;
  /** From the start of the command to its first word, in milliseconds. */
  launchMs: number;
  /** From there to the server's first frame. */
  serverMs: number;
  close(): Promise<void>;
}

/** How the bridge to the target, if there is one, reaches it. */
export interface ConnectionOptions {
  home?: string | undefined;
  runtime?: Runtime | undefined;
}

/** How long the server may take to end. */
const END_MS = 3_000;

/** Starts a server in a target, as a bridge does. */
export async function connectToTarget(
  target: Target,
  { home, runtime }: ConnectionOptions,
): Promise<TargetConnection> {
  // The check of a local target makes its directory, and doctor changes nothing.
  if (target.kind !== 'local') await target.check();
  const started = performance.now();
  const launcher = await target.exec(inHome(home, launcherCommand(runtime)));
  const server = await startServer(target, { exec: launcher, runtime, log: noLog });
  const { exec } = server;
  const launched = performance.now();
  const muxer = new HostMuxer({ input: exec.stdout, output: exec.stdin });
  const close = async () => {
    muxer.close();
    exec.stdin.end();
    const patience = setTimeout(() => exec.kill(), END_MS);
    await exec.exited;
    clearTimeout(patience);
    exec.kill();
  };
  let ended: BridgeError | undefined;
  const late = setTimeout(() => {
    ended = notAnswered(target, `its server was not ready within ${LAUNCH_TIMEOUT_MS / 1000} s`);
    muxer.close();
  }, LAUNCH_TIMEOUT_MS);
  try {
    const info = await new Promise<ReadyInfo>((resolve, reject) => {
      muxer.once('ready', resolve);
      muxer.once('close', (error) => reject(ended ?? error ?? silent(target, server.stderr())));
    });
    const ready = performance.now();
    return {
      operations: new WireOperations(muxer, info),
      runtime: server.runtime,
      launchMs: launched - started,
      serverMs: ready - launched,
      close,
    };
  } catch (error) {
    await close();
    throw toBridgeError(error, `can't look into ${target.name}`);
  } finally {
    clearTimeout(late);
  }
}

function silent(target: Target, said: string): BridgeError {
  return new BridgeError('TARGET_CLOSED', {
    what: `${target.name} did not start its end`,
    why: said || 'it ended without a word',
    fix: target.shell ? `See whether \`${target.shell}\` works.` : 'See whether the command works by itself.',
  });
}
