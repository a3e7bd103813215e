import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { stopProcess, untilEnded } from '@gpg-bridge/test-support/process';
import { within } from '@gpg-bridge/test-support/within';
import { expect } from 'vitest';
import { BridgeLine, type Line } from './lines.ts';
import { Client, PATIENCE_MS, signal, until } from './programs.ts';
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
export async function runCell(cell: Cell, attempt: Attempt): Promise<void> {
  const disturbed: Disturbed = { clients: [], still: undefined };
  try {
    await tryCell(cell, attempt, disturbed);
  } finally {
    // Wherever it broke off: nothing is left that stands still, is held, or waits.
    if (disturbed.still !== undefined) signal(disturbed.still, 'SIGCONT');
    attempt.hold.release();
    for (const client of disturbed.clients) client.kill();
  }
}

/** What is in a state that it may not stay in. */
interface Disturbed {
  clients: Client[];
  /** The process that stands still. */
  still: number | undefined;
}

async function tryCell(cell: Cell, attempt: Attempt, disturbed: Disturbed): Promise<void> {
  const { scene, line, hold, victim, revive } = attempt;
  const connect = () => {
    const client = new Client(line.path);
    disturbed.clients.push(client);
    return client;
  };
  const script = scene.scripts.get(cell.phase)!;
  const idle = scene.scripts.get('idle')!;
  await scene.otherBridgeGoesOn();
  const other = connect();
  await other.reachesAgent();

  const client = await hold.reach(connect, script.before, line instanceof BridgeLine ? line : undefined);
  const pid = victim ?? (cell.process === 'client' ? client.pid : line.pid(cell.process));
  if (cell.fault === 'killed') {
    process.kill(pid, 'SIGKILL');
    if (cell.process === 'client') await client.ends('the killed client did not end');
    else await within(PATIENCE_MS, untilEnded(pid), `the killed ${cell.process} did not end`);
    await revive?.();
    client.tell(script.rest);
  } else {
    disturbed.still = pid;
    await within(PATIENCE_MS, stopProcess(pid), `the ${cell.process} did not stand still`);
    // Only an agent that stands still is missed by others, too.
    if (cell.process !== 'agent') await scene.otherBridgeGoesOn();
    client.tell(script.rest);
    if (cell.fault === 'frozen') await outlast(cell, line, client);
    signal(pid, 'SIGCONT');
  }
  hold.release();

  await client.ends('the client got neither an answer nor an error', ERROR_MS);
  const verdict = judge(client.printed, script.everything);
  const wanted = cell.outcome === 'waits' || cell.outcome === 'served' ? 'everything' : 'error';
  expect(verdict, client.printed).toBe(wanted);

  other.tell(idle.rest);
  await other.ends('another session over the same bridge was forgotten', ERROR_MS);
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
    await client.ends('the client got no error while the process stood still', ERROR_MS);
    // Where the target's end has lost its host it leaves no socket that answers nobody.
    if (others === 'end') await until('no socket is left', async () => !existsSync(line.path));
  } else if (outcome === 'late') {
    await line.givenUp();
    expect(client.child.exitCode, 'the client was told by nobody').toBe(null);
  } else await delay(FROZEN_MS);
}
