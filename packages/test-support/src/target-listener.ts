import { lstat } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import type { KeptPath } from '@gpg-bridge/core/remote/keep-path';
import { type ListenOptions, listenInTarget } from '@gpg-bridge/core/remote/listen';
import { onTestFinished } from 'vitest';
import { GnupgHome } from './gnupg-home.ts';
import { runOk } from './process.ts';

/** What `answerOk` greets with: no real agent says that. */
export const GREETING = 'OK hello from the bridge';

/** Serves one client as an agent that has no objections. */
export function answerOk(socket: Socket): void {
  socket.on('error', () => {}).on('data', () => socket.write('OK\n'));
  socket.write(`${GREETING}\n`);
}

/** Listens as a bridge in a target does, with `answerOk` behind it; closed with the test. */
export async function listen(path: string, options: Partial<ListenOptions> = {}): Promise<KeptPath> {
  const listener = await listenInTarget({
    path,
    type: 'gpg-agent',
    onConnection: answerOk,
    probeTimeoutMs: 20_000, // a busy machine is not a hung one
    stopOwnAgent: () => Promise.reject(new Error('there should be nothing to stop')),
    ...options,
  });
  onTestFinished(() => listener.close());
  return listener;
}

/** The first line that a socket says, or its connect error. */
export function greetingAt(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    socket.once('error', reject).once('data', (chunk: Buffer) => {
      socket.destroy();
      resolve(chunk.toString().split('\n')[0] ?? '');
    });
  });
}

/** A GNUPGHOME that goes with the test. */
export async function gnupgHome(): Promise<GnupgHome> {
  const home = await GnupgHome.create();
  onTestFinished(() => home.remove());
  return home;
}

/** The process of the agent that serves a home, which has to be running. */
export async function agentPid(home: GnupgHome): Promise<number> {
  const answer = await runOk('gpg-connect-agent', ['--no-autostart', 'GETINFO pid', '/bye'], {
    env: home.env,
  });
  const pid = Number(/^D (\d+)$/m.exec(answer)?.[1]);
  if (!(pid > 0)) throw new Error(`no agent: ${answer}`);
  return pid;
}

/** Ends a process that may be gone already. */
export function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** A file's permission bits in octal. */
export async function modeOf(path: string): Promise<string> {
  return ((await lstat(path)).mode & 0o7777).toString(8);
}
