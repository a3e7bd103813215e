// What the steps of `.ci/run` left in its directory of reports.
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/** What a step wrote of its tests, if it ran any. */
export function reportOf(dir, step) {
  return parsed(join(dir, `${step}.json`));
}

/** What went wrong in a run of tests beside them, each with its file if that is known. */
export function runErrors(dir, step) {
  return parsed(join(dir, `${step}.errors.json`)) ?? [];
}

/** The counts of a report of vitest's, by the file of tests, relative to the working directory. */
export function testsOf(report) {
  return new Map((report?.testResults ?? []).map((file) => [relative('.', file.name), ofFile(file)]));
}

/**
 * A file that failed before its tests were known counts as one test that failed. One whose process died, or whose turn
 * did not come, is reported as passed: with tests that did not run, or with none, which counts as one.
 */
function ofFile({ status, assertionResults }) {
  const withStatus = (wanted) => assertionResults.filter((test) => test.status === wanted).length;
  const [passed, failed] = [withStatus('passed'), withStatus('failed')];
  const isLost = assertionResults.length === 0 && status === 'passed';
  const notRun = isLost ? 1 : assertionResults.length - passed - failed;
  return { passed, failed: failed + notRun === 0 && status !== 'passed' ? 1 : failed, notRun };
}

/** What is in a file; nothing also if whoever wrote it was ended meanwhile. */
function parsed(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}
