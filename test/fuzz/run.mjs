// Feeds readers, rules and real processes with inputs that nobody would send. Options:
//   --seconds N       how long in all (60)
//   --seed S          another series of inputs (1)
//   --only NAME       one of them; several with commas
//   --input FILE      only this input, for the one that --only names
//   --at-least N      fails if there were fewer inputs
//   --json FILE       a report, in the form of the test reports
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bundled, instrumented } from './engine/instrument.mjs';
import { runTarget } from './engine/run-target.mjs';
import { PROCESSES } from './processes/index.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    input: { type: 'string' },
    'at-least': { type: 'string', default: '0' },
    json: { type: 'string' },
  },
});
const root = fileURLToPath(new URL('.', import.meta.url));
const corpusOf = (name) => {
  try {
    return readdirSync(join(root, 'corpus', name)).map((file) =>
      readFileSync(join(root, 'corpus', name, file)),
    );
  } catch {
    return []; // nothing was ever found there
  }
};

const work = mkdtempSync(join(tmpdir(), 'gb-fuzz-'));
const bundle = join(work, 'targets.cjs');
const { text, count: counters } = await instrumented(join(root, 'engine/bundle-entry.ts'));
writeFileSync(bundle, text);
globalThis.fuzzCounters = new Uint8Array(counters);
const require = createRequire(import.meta.url);
const { TARGETS, failureOf } = require(bundle);
writeFileSync(join(work, 'tools.cjs'), await bundled(join(root, 'processes/tools.ts')));
const tools = require(join(work, 'tools.cjs'));

const names = [...TARGETS.map(({ name }) => name), ...PROCESSES.map(({ name }) => name)];
const wanted = values.only?.split(',') ?? names;
const unknown = wanted.find((name) => !names.includes(name));
if (unknown) {
  console.error(`There is no target ${unknown}: they are ${names.join(', ')}.`);
  process.exit(2);
}

/** A machine that is too slow for the number that was asked for gets so many times the time, and no more. */
const MOST_TIMES = 3;
const results = [];

/** Fuzzes everything that is wanted: readers and rules in one lane, real processes in another. */
async function fuzzAll() {
  const seconds = Number(values.seconds);
  const seed = Number(values.seed);
  const start = performance.now();
  await Promise.all([fuzzReaders(seed, seconds), fuzzProcesses(seed, seconds)]);
  const isEnough = () => total() >= Number(values['at-least']) || results.some(({ finding }) => finding);
  for (let round = 1; !isEnough() && performance.now() - start < MOST_TIMES * seconds * 1_000; round++) {
    await fuzzReaders(seed + round, seconds / 4);
  }
}

async function fuzzReaders(seed, seconds) {
  const chosen = TARGETS.filter(({ name }) => wanted.includes(name));
  for (const { name } of chosen) {
    const corpus = corpusOf(name);
    note(
      name,
      seed,
      await runTarget({ bundle, counters, name, seed, corpus, seconds: seconds / chosen.length }),
    );
  }
}

async function fuzzProcesses(seed, seconds) {
  const chosen = PROCESSES.filter(({ name }) => wanted.includes(name));
  for (const target of chosen) {
    note(target.name, seed, await target.run({ seed, seconds: seconds / chosen.length, work, tools }));
  }
}

function total() {
  return results.reduce((sum, { inputs }) => sum + inputs, 0);
}

function note(name, seed, result) {
  const { inputs, reached, kept } = result;
  const coverage = reached ? `, ${reached} places reached, ${kept} inputs kept` : '';
  console.log(`${name.padEnd(16)} ${String(inputs).padStart(9)} inputs${coverage}`);
  results.push({ name, ...result });
  if (result.finding) report(name, seed, result.finding);
}

/** Says what was found, keeps the input, and how to see it again. */
function report(name, seed, { input, error }) {
  console.log(`\n${name}: ${error}\n`);
  if (!input) {
    console.log(`seed ${seed}; again: npm run fuzz -- --only ${name} --seed ${seed}\n`);
    return;
  }
  const directory = join(root, 'corpus', name);
  const file = join(directory, `${createHash('sha256').update(input).digest('hex').slice(0, 12)}.bin`);
  mkdirSync(directory, { recursive: true });
  writeFileSync(file, input);
  const path = relative(process.cwd(), file);
  console.log(`seed ${seed}, ${input.length} bytes: ${JSON.stringify(input.toString('latin1'))}`);
  console.log(`again: npm run fuzz -- --only ${name} --input ${path}\n`);
}

function once(name, file) {
  const error = failureOf(
    TARGETS.find((target) => target.name === name),
    readFileSync(file),
  );
  console.log(error ?? 'nothing is wrong with this input');
  return error === undefined ? 0 : 1;
}

/** Writes what came of it in the form of a test report, in which each target is a test. */
function writeReport(file, failed, isEnough) {
  const names = new Set(results.map(({ name }) => name));
  const numFailedTests = failed.size + (isEnough ? 0 : 1);
  const numPassedTests = names.size - failed.size;
  const inputs = Object.fromEntries([...names].map((name) => [name, 0]));
  for (const each of results) inputs[each.name] += each.inputs;
  const counts = { numTotalTests: numPassedTests + numFailedTests, numPassedTests, numFailedTests };
  writeFileSync(file, JSON.stringify({ ...counts, inputs }));
}

if (values.input) process.exitCode = once(wanted[0], values.input);
else {
  await fuzzAll();
  const failed = new Set(results.filter(({ finding }) => finding).map(({ name }) => name));
  const isEnough = total() >= Number(values['at-least']);
  console.log(`${total()} inputs in all, ${failed.size} of ${wanted.length} targets failed`);
  if (!isEnough) console.log(`too few: at least ${values['at-least']} were asked for`);
  if (values.json) writeReport(values.json, failed, isEnough);
  process.exitCode = failed.size > 0 || !isEnough ? 1 : 0;
}
rmSync(work, { recursive: true, force: true });
