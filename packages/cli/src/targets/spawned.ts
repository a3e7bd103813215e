import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '@gpg-bridge/core/errors';
import { type SocketPair, socketPair } from '@gpg-bridge/core/io/socket-pair';
import { endChild } from '../engine/end-child.ts';
import type { ExecStream, ExitInfo } from '../engine/engine.ts';

/** Runs a program of this machine as an ExecStream. */
export async function spawnExec(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<ExecStream> {
  const pair = await ownPair();
  return new Promise((resolve, reject) => {
    // A group of its own: Ctrl-C in the terminal that started a bridge is not for the bridge's children.
    const child = spawn(program, args, {
      env,
      stdio: pair ? [pair.far, pair.far, 'pipe'] : 'pipe',
      detached: true,
    });
    pair?.far.destroy(); // the child has its own by now
    const exited = new Promise<ExitInfo>((done) => {
      child.once('close', (status, signal) => done({ status, signal }));
    });
    child.once('error', (error: NodeJS.ErrnoException) => {
      pair?.near.destroy();
      reject(
        new BridgeError('TARGET_NOT_FOUND', {
          what: `can't run ${program}`,
          why: error.code === 'ENOENT' ? 'it is not installed or not on the PATH' : error.message,
          fix: `Install ${program}, or put it on the PATH.`,
          cause: error,
        }),
      );
    });
    child.once('spawn', () => {
      const stdin = pair?.near ?? child.stdin!;
      const stdout = pair?.near ?? child.stdout!;
      stdin.on('error', () => {}); // the program may be gone already: `exited` tells
      const kill = () => {
        endChild(child);
        pair?.near.destroy();
      };
      resolve({ stdin, stdout, stderr: child.stderr!, exited, kill });
    });
  });
}

/** A pair of our own is read with less effort than Node's pipes; where it can't be had, those do. */
async function ownPair(): Promise<SocketPair | undefined> {
  if (process.platform === 'win32') return undefined; // a child can't inherit one there
  return socketPair().catch(() => undefined);
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** Waits before the next attempt: twice as long each time, half a minute at most. */
export async function backOff(attempt: number, signal: AbortSignal): Promise<void> {
  await delay(Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS), undefined, { signal });
}
