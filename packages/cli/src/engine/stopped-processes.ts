import { setTimeout as delay } from 'node:timers/promises';
import type { TerminalReader } from './terminal-gate.ts';
import { allProcesses, hasStopped, readersBelow } from './terminal-processes.ts';

/** A process stops as soon as it has a processor. */
const STOPS_WITHIN_MS = 500;

/**
 * A program that reads the terminal itself, with all that it has started there. It can't be told to stop reading, so
 * its processes are stopped; those that are stopped already, as a shell's jobs are, stay so.
 */
export class StoppedProcesses implements TerminalReader {
  readonly #root: number;
  #stopped = new Set<number>();
  /** Those that were stopped already, too. */
  readonly #readers = new Set<number>();

  constructor(root: number) {
    this.#root = root;
  }

  async stop(): Promise<void> {
    const seen = new Set<number>();
    // Something may have had them go on. To look for them takes longer than to read a key.
    for (const pid of this.#stopped) signal(pid, 'SIGSTOP');
    // One that was just started by another, before that was stopped, shows the next time.
    for (;;) {
      const found = readersBelow(this.#root, await allProcesses()).filter(({ pid }) => !seen.has(pid));
      if (found.length === 0) break;
      for (const { pid, isStopped } of found) {
        seen.add(pid);
        this.#readers.add(pid);
        if (isStopped || !signal(pid, 'SIGSTOP')) continue;
        this.#stopped.add(pid);
        // A shell that still runs would see that what it has started is stopped, and take it for a job of its own.
        await untilStopped(pid);
      }
    }
  }

  /** What a shell has started goes on before the shell looks at it: it does not take it for stopped. */
  goOn(): void {
    for (const pid of [...this.#stopped].reverse()) signal(pid, 'SIGCONT');
    this.#stopped.clear();
    this.#readers.clear();
  }

  /** SIGHUP would have to wait until they go on, and read. */
  end(): void {
    for (const pid of this.#readers) signal(pid, 'SIGKILL');
  }
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // it has ended, or is another user's
  }
}

async function untilStopped(pid: number): Promise<void> {
  const end = performance.now() + STOPS_WITHIN_MS;
  while (!hasStopped(pid) && performance.now() < end) await delay(1);
}
