/**
 * What V8 is told in a process that runs for days and does the same few things.
 *
 * Node 20 alone, whose V8 is 11.3, optimizes a function after so much work that a daemon with a few signatures a day would
 * take weeks for it: there a sixteenth of that is enough. Its compiling threads wait a moment first; at once, they take
 * their processors from the very commit that made the function run often. Newer ones have a faster compiler in between,
 * and no such flag: they would print that they do not know it.
 */

/** With this one a daemon is started: V8 reads it once, when it starts. */
const DELAY = '--concurrent-recompilation-delay';
const DELAY_MS = 30;
const BUDGET = '--interrupt-budget=4096';
/**
 * The young generation keeps its first size: sessions leave only short-lived garbage, so a larger one would raise resident
 * memory and save nothing.
 */
const KEEP_SIZE = '--semi-space-growth-factor=1';

/** Options of Node for a daemon. */
export const DAEMON_NODE_OPTIONS: readonly string[] = process.versions.v8.startsWith('11.3.')
  ? [`${DELAY}=${DELAY_MS}`]
  : [];

const isDelayed = process.execArgv.includes(`${DELAY}=${DELAY_MS}`);

/**
 * Takes the flag back that this process was started with, as far as that shows, before modules of Node are loaded: with
 * other flags than the default it can't use the code cache of its own modules, and starts 15 ms slower.
 */
export async function hideStartFlags(): Promise<void> {
  if (isDelayed) await setFlags([`${DELAY}=0`]);
}

/** Sets the flags of a daemon that is ready: not before, for the same reason. */
export async function setDaemonFlags(): Promise<void> {
  await setFlags([KEEP_SIZE, ...(isDelayed ? [BUDGET] : [])]);
}

async function setFlags(flags: readonly string[]): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  for (const flag of flags) setFlagsFromString(flag);
}
