import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { BridgeError } from '@gpg-bridge/core/errors';
import { asViewSocket } from '@gpg-bridge/core/io/view-socket';
import { endChild } from '../engine/end-child.ts';
import type { ExecStream, ExitInfo } from '../engine/engine.ts';

/** Runs a program of this machine as an ExecStream. */
export function spawnExec(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<ExecStream> {
  return new Promise((resolve, reject) => {
    // A group of its own: Ctrl-C in the terminal that started a bridge is not for the bridge's children.
    const child = spawn(program, args, { env, stdio: 'pipe', detached: true, windowsHide: true });
    const exited = new Promise<ExitInfo>((done) => {
      child.once('close', (status, signal) => done({ status, signal }));
    });
    child.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        new BridgeError('TARGET_NOT_FOUND', {
          what: `can't run ${program}`,
          why: error.code === 'ENOENT' ? 'it is not installed or not on the PATH' : error.message,
          fix: `Install ${program}, or put it on the PATH.`,
          cause: error,
        }),
      );
    });
    // `spawn` is emitted before anything is read from the program.
    child.once('spawn', () => {
      const { stdin, stderr } = child;
      const stdout = asViewSocket(child.stdout as Socket);
      stdin.on('error', () => {}); // the program may have ended already: `exited` resolves then
      const kill = () => {
        endChild(child);
        stdout.destroy();
      };
      resolve({ stdin, stdout, stderr, exited, kill });
    });
  });
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** Waits before the next attempt: twice as long each time, half a minute at most. */
export async function backOff(
  attempt: number,
  signal: AbortSignal,
  onPause: (until: Date) => void = () => {},
): Promise<void> {
  const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
  onPause(new Date(Date.now() + pauseMs));
  await delay(pauseMs, undefined, { signal });
}
