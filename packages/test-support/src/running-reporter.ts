import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node';

const LOOK_MS = 60_000;
const LONG_MS = 180_000;

/**
 * How long before its deadline (GPG_BRIDGE_TEST_DEADLINE, seconds since 1970) a run is cancelled: cleanups then have
 * until the second time, which kills the workers, and the end of the engines and the coverage have the rest.
 */
const CANCEL_BEFORE_MS = [300_000, 180_000];

/** What a test file is at, and since when. */
interface Running {
  at: string;
  since: number;
}

/**
 * Names the tests that take long while they do: a run that is ended from outside has no summary, and the usual
 * reporter prints a file when all of it is done. Has a run that is out of time end by itself, with a report.
 */
export default class RunningReporter implements Reporter {
  readonly #running = new Map<string, Running>();
  #timers: NodeJS.Timeout[] = [];
  #vitest?: Vitest;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunStart(): void {
    this.#timers = [setInterval(() => this.#tell(), LOOK_MS)];
    const deadline = process.env.GPG_BRIDGE_TEST_DEADLINE;
    if (!deadline) return;
    const left = Number(deadline) * 1000 - Date.now();
    for (const before of CANCEL_BEFORE_MS) {
      this.#timers.push(setTimeout(() => this.#cancel(), Math.max(0, left - before)));
    }
  }

  onTestModuleStart(module: TestModule): void {
    this.#note(module, 'its beginning');
  }

  onTestCaseReady(test: TestCase): void {
    this.#note(test.module, `“${test.fullName}”`);
  }

  onTestCaseResult(test: TestCase): void {
    this.#note(test.module, `what comes after “${test.fullName}”`);
  }

  onTestModuleEnd(module: TestModule): void {
    this.#running.delete(module.relativeModuleId);
  }

  onTestRunEnd(): void {
    for (const timer of this.#timers) clearTimeout(timer); // also the interval
  }

  #note(module: TestModule, at: string): void {
    this.#running.set(module.relativeModuleId, { at, since: performance.now() });
  }

  /** What runs becomes an error of the run: its summary names that. */
  #cancel(): void {
    for (const [file, words] of this.#longerThan(0)) {
      const message = `the time is over, and it ${words}`;
      this.#vitest?.state.catchError({ message, VITEST_TEST_PATH: file }, 'Out of Time');
    }
    void this.#vitest?.cancelCurrentRun('keyboard-input');
  }

  #tell(): void {
    for (const [file, words] of this.#longerThan(LONG_MS)) console.log(` … ${file} ${words}`);
  }

  /** The files that have been at the same for so long, with words for that. */
  #longerThan(limitMs: number): [file: string, words: string][] {
    return [...this.#running].flatMap(([file, { at, since }]) => {
      const ms = performance.now() - since;
      return ms > limitMs ? [[file, `has been at ${at} for ${Math.round(ms / 1000)} s`]] : [];
    });
  }
}
