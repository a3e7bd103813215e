// Fuzzes one of the targets that run with coverage, and watches over it.
import { Worker } from 'node:worker_threads';

/** A target that is busy with one input for so long hangs; the machine may be slow. */
const HANG_MS = 30_000;
const MAX_HEAP_MB = 512;
const MAX_INPUT = 65_536;

/** Resolves to what came of it: inputs, what was reached, and a finding if there is one. */
export function runTarget({ bundle, counters, name, seed, corpus, seconds }) {
  const shared = new SharedArrayBuffer(8 + MAX_INPUT);
  const counts = new Int32Array(shared, 0, 2);
  const worker = new Worker(new URL('worker.mjs', import.meta.url), {
    workerData: { bundle, counters, name, seed, corpus, seconds, shared },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  });
  const current = () => Buffer.from(Buffer.from(shared, 8, counts[1]));
  return new Promise((resolve) => {
    let seen = -1;
    let since = Date.now();
    const settle = (result) => {
      clearInterval(watch);
      void worker.terminate();
      resolve(result);
    };
    const broken = (error) =>
      settle({ inputs: counts[0], kept: 0, reached: 0, finding: { input: current(), error } });
    const watch = setInterval(() => {
      if (Atomics.load(counts, 0) !== seen) {
        seen = counts[0];
        since = Date.now();
      } else if (Date.now() - since > HANG_MS)
        broken(`it has been busy with one input for ${HANG_MS / 1_000} s`);
    }, 1_000);
    worker.once('message', ({ finding, ...result }) =>
      settle(finding ? { ...result, finding: { ...finding, input: Buffer.from(finding.input) } } : result),
    );
    worker.once('error', (error) => broken(error.stack ?? String(error)));
    worker.once('exit', (status) => {
      if (status !== 0) broken(`the thread ended with status ${status}`);
    });
  });
}
