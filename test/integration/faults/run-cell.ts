import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlive, stopProcess, untilEnded } from '@gpg-bridge/test-support/process';
import { expect } from 'vitest';
import { BridgeLine, type Line } from './lines.ts';
import { Client, until } from './programs.ts';
import type { Hold, Scene } from './scene.ts';
import type { Cell } from './table.ts';
import { judge } from './transcript.ts';

/** How long a client may take to get its error: the host's agent is waited for five seconds. */
const ERROR_MS = 10_000;
/** Longer than a line may be silent with the heartbeat of `FREEZING`. */
const FROZEN_MS = 3_000;

/** How one cell is tried. */
export interface Attempt {
  scene: Scene;
  line: Line;
  hold: Hold;
  /** The process that is meant; the client's own is known only then. */
  victim?: number;
  /** Starts what was killed again, where nothing in the bridge does. */
  revive?: () => Promise<void>;
}

/** Tries one cell of the table, and checks everything that has to be true afterwards. */
export async function runCell(cell: Cell, { scene, line, hold, victim, revive }: Attempt): Promise<void> {
  const script = scene.scripts.get(cell.phase)!;
  const idle = scene.scripts.get('idle')!;
  await scene.otherBridgeGoesOn();
  const other = new Client(line.path);
  await other.reachesAgent();

  const client = await hold.reach(
    () => new Client(line.path),
    script.before,
    line instanceof BridgeLine ? line : undefined,
  );
  const pid = victim ?? (cell.process === 'client' ? client.pid : line.pid(cell.process));
  if (cell.fault === 'killed') {
    process.kill(pid, 'SIGKILL');
    if (cell.process === 'client') await client.exited;
    else await untilEnded(pid);
    await revive?.();
    client.tell(script.rest);
  } else {
    await stopProcess(pid);
    // Only an agent that stands still is missed by others, too.
    if (cell.process !== 'agent') await scene.otherBridgeGoesOn();
    client.tell(script.rest);
    if (cell.fault === 'frozen') await outlast(cell, line, client);
    if (await isAlive(pid)) process.kill(pid, 'SIGCONT');
  }
  hold.release();

  await within(ERROR_MS, client.exited, 'the client got neither an answer nor an error');
  const verdict = judge(client.printed, script.everything);
  const wanted = cell.outcome === 'waits' || cell.outcome === 'served' ? 'everything' : 'error';
  expect(verdict, client.printed).toBe(wanted);

  other.tell(idle.rest);
  await within(ERROR_MS, other.exited, 'another session over the same bridge was forgotten');
  expect(judge(other.printed, idle.everything), other.printed).toBe(
    cell.others === 'go on' ? 'everything' : 'error',
  );
  if (cell.process === 'agent' && cell.fault === 'killed') await scene.otherBridgeEnds();
  const isBroken = cell.fault === 'killed' || (cell.fault === 'frozen' && cell.others === 'end');
  if (isBroken) await line.restore(cell);
  await scene.otherBridgeGoesOn();
  await line.sign();
  await line.end();
}

/** Waits while a process stands still: for the error, for the bridge to be given up, or for long. */
async function outlast({ outcome, others }: Cell, line: Line, client: Client): Promise<void> {
  if (outcome === 'error') {
    await within(ERROR_MS, client.exited, 'the client got no error while the process stood still');
    // Where the target's end has lost its host it leaves no socket that answers nobody.
    if (others === 'end') await until('no socket is left', async () => !existsSync(line.path));
  } else if (outcome === 'late') {
    await line.givenUp();
    expect(client.child.exitCode, 'the client was told by nobody').toBe(null);
  } else await delay(FROZEN_MS);
}

async function within(ms: number, something: Promise<unknown>, complaint: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(complaint)), ms);
  });
  await Promise.race([something, late]).finally(() => clearTimeout(timer));
}
