import type { Reporter, TestCase, TestModule } from 'vitest/node';

const LOOK_MS = 60_000;
const LONG_MS = 180_000;

/** What a test file is at, and since when. */
interface Running {
  at: string;
  since: number;
}

/**
 * Names the tests that take long while they do: a run that is ended from outside has no summary, and the usual
 * reporter prints a file when all of it is done.
 */
export default class RunningReporter implements Reporter {
  readonly #running = new Map<string, Running>();
  #timer?: NodeJS.Timeout;

  onTestRunStart(): void {
    this.#timer = setInterval(() => this.#tell(), LOOK_MS);
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
    clearInterval(this.#timer);
  }

  #note(module: TestModule, at: string): void {
    this.#running.set(module.relativeModuleId, { at, since: performance.now() });
  }

  #tell(): void {
    for (const [file, { at, since }] of this.#running) {
      const ms = performance.now() - since;
      if (ms > LONG_MS) console.log(` … ${file} has been at ${at} for ${Math.round(ms / 1000)} s`);
    }
  }
}
