// Runs one target in a thread of its own: what hangs or takes too much memory ends there, with its input known.
import { createRequire } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';

const { bundle, counters, name, seed, corpus, seconds, shared } = workerData;
globalThis.fuzzCounters = new Uint8Array(counters);
const { TARGETS, fuzz } = createRequire(import.meta.url)(bundle);
const target = TARGETS.find((each) => each.name === name);

/** [inputs so far, length of the current input], and the current input behind them. */
const counts = new Int32Array(shared, 0, 2);
const current = Buffer.from(shared, 8);
const end = performance.now() + seconds * 1_000;

// No count is looked at more often than the clock is worth.
const isOver = (count) => count % 64 === 0 && performance.now() >= end;
const result = await fuzz(target, {
  seed,
  corpus: corpus.map((each) => Buffer.from(each)),
  counters: globalThis.fuzzCounters,
  isOver,
  onInput(input, count) {
    input.copy(current);
    counts[1] = Math.min(input.length, current.length);
    Atomics.store(counts, 0, count + 1);
  },
});
parentPort.postMessage(result);
