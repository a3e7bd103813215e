/*
 * Uses bridges as many people would, and disturbs them, for as long as told.
 * Run: npm run soak [-- --seconds N] [--json FILE] [--verbose]
 *
 * Programs sign, decrypt and log in; clients die, leave early or stop reading; agents and targets are restarted.
 * At the end not one answer was lost or wrong, and memory, descriptors and sessions are back where they were.
 * What fails while an agent or a target is away is tried again, and has to succeed then.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { Checks } from './soak/checks.mjs';
import { clients } from './soak/clients.mjs';
import { Disturbances } from './soak/disturbances.mjs';
import { Machine } from './soak/machine.mjs';
import { programs } from './soak/programs.mjs';

/** Long enough for everything to have been used once, so that what is loaded late is loaded. */
const WARM_UP_MS = 10_000;
/** Of the disturbances, before anything is measured: attaching again loads something, too. */
const WARM_UP_DISTURBANCES = 4;
/** A daemon gives memory back after two to four seconds; on a busy machine it takes longer to get there. */
const SETTLES_MS = 10_000;
const LEAST_PAUSE_MS = 20;

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    json: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
});
const seconds = Number(flags.seconds);
if (!(seconds > 0)) {
  process.stderr.write('soak: --seconds takes a number of seconds\n');
  process.exit(2);
}
const say = flags.verbose ? (text) => process.stderr.write(`${text}\n`) : () => {};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const checks = new Checks();
const machine = await Machine.start();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => machine.stop().finally(() => process.exit(1)));
}
const disturbances = new Disturbances(machine, say);
let isOver = false;
const work = [...programs(machine), ...clients(machine)];

/** One of the machine's users, who does one thing over and over. */
async function repeat({ name, once }) {
  while (!isOver) {
    const started = performance.now();
    try {
      const outcome = await disturbances.during(() => once(say));
      checks.count(name, outcome);
    } catch (error) {
      checks.violation(`${name}: ${error.message}`);
      say(`violation: ${name}: ${error.message}`);
      await pause(100);
    }
    // Everybody gets a turn on a machine with few cores, and nobody is a flood: that is another test's.
    await pause(Math.max(LEAST_PAUSE_MS, Math.min(500, performance.now() - started)));
  }
}

let running = [];
try {
  running = work.map(repeat);
  await pause(Math.min(WARM_UP_MS, seconds * 250));
  for (let count = 0; count < WARM_UP_DISTURBANCES; count++) await disturbances.next();
  // What is there after a first round of everything is what has to be there at the end.
  isOver = true;
  await Promise.all(running);
  await pause(SETTLES_MS);
  const before = await machine.measure();
  isOver = false;
  running = work.map(repeat);
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end) {
    await pause(Math.min(3_000 + Math.random() * 5_000, end - performance.now()));
    if (performance.now() < end) await disturbances.next();
  }
  isOver = true;
  await Promise.all(running);
  await pause(SETTLES_MS);
  checks.compare(before, await machine.measure());
  checks.left(await machine.downAll());
} catch (error) {
  checks.violation(`the soak itself failed: ${error.stack}`);
} finally {
  isOver = true;
  await Promise.allSettled(running);
  await machine.stop();
}

const summary = checks.summary(seconds, disturbances.counts);
process.stdout.write(summary.text);
if (flags.json) await writeFile(flags.json, JSON.stringify(summary.tests));
process.exitCode = summary.tests.numFailedTests === 0 ? 0 : 1;
