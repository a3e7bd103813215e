import { writeFile } from 'node:fs/promises';
import { relative } from 'node:path';
import type { Reporter, SerializedError, TestModule, TestSpecification } from 'vitest/node';

/** Something that went wrong in a run and that the results of its tests do not tell. */
interface RunError {
  /** The file of tests that it belongs to, if that is known. */
  file?: string;
  message: string;
}

/**
 * Notes in the file that GPG_BRIDGE_TEST_ERRORS names what vitest's own report leaves out: errors that nobody caught,
 * and files whose process died before it told of them.
 */
export default class ErrorsReporter implements Reporter {
  #files: string[] = [];

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    this.#files = specifications.map(({ moduleId }) => moduleId);
  }

  async onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): Promise<void> {
    const path = process.env.GPG_BRIDGE_TEST_ERRORS;
    if (path) await writeFile(path, JSON.stringify([...uncaught(errors), ...this.#lost(modules)]));
  }

  #lost(modules: readonly TestModule[]): RunError[] {
    const reported = new Set(modules.map(({ moduleId }) => moduleId));
    const lost = this.#files.filter((file) => !reported.has(file));
    return lost.map((file) => ({ file: relative('.', file), message: 'its process died before its tests' }));
  }
}

/** Without those of the pool: each is about a file that did not end, and that shows. */
function uncaught(errors: readonly SerializedError[]): RunError[] {
  return errors
    .filter(({ message }) => !message.startsWith('[vitest-pool]'))
    .map(({ VITEST_TEST_PATH: file, message, stack }) => ({
      ...(typeof file === 'string' && { file: relative('.', file) }),
      message: stack ?? message,
    }));
}
