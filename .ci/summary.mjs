// Adds up the steps of `.ci/run`: for each NAME.status (its exit status), and NAME.json if it ran tests.
// A test that did not run counts as failed, and so does a step that failed without a failed test.
// Test files that were run again by themselves (NAME-again.json) count as they ended then. Each failure is named with
// the first lines of its message, also one that was gone the second time: of a long log only the end may be kept.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

const dir = process.argv[2];
let passed = 0;
let failed = 0;

for (const step of steps()) {
  const again = results(`${step}-again`);
  let failures = 0;
  for (const name of [step, `${step}-again`]) tellFailures(name);
  for (const [name, tests] of new Map([...results(step), ...again])) {
    passed += tests.passed;
    failures += tests.failed + tests.notRun;
    if (tests.notRun > 0) console.log(`${step}: ${tests.notRun} tests of ${name} did not run`);
    if (again.has(name)) console.log(`${step}: ${name} failed, and was run again by itself`);
  }
  const status = Number(readFileSync(join(dir, `${again.size > 0 ? `${step}-again` : step}.status`), 'utf8'));
  if (failures === 0 && status !== 0) {
    console.log(`${step}: failed with status ${status}`);
    failures = 1;
  }
  failed += failures;
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

function steps() {
  const names = readdirSync(dir).filter(
    (name) => name.endsWith('.status') && !name.endsWith('-again.status'),
  );
  return names.map((name) => name.replace(/\.status$/, ''));
}

function tellFailures(step) {
  for (const { name, message, assertionResults = [] } of reportOf(step)?.testResults ?? []) {
    const failures = assertionResults.filter((test) => test.status === 'failed');
    for (const { fullName, failureMessages } of failures)
      console.log(`${step}: ${relative('.', name)}: ${fullName}\n${beginning(failureMessages.join('\n'))}`);
    if (failures.length === 0 && message)
      console.log(`${step}: ${relative('.', name)}\n${beginning(message)}`);
  }
}

/** The first lines of a message, indented and without colours. */
function beginning(message) {
  const lines = stripVTControlCharacters(message).split('\n').slice(0, 12);
  return lines.map((line) => `    ${line.slice(0, 200)}`).join('\n');
}

/** What a step wrote of its tests, if it ran any. */
function reportOf(step) {
  const path = join(dir, `${step}.json`);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** The counts of a step's report, for each file of tests; a report that knows no files is one. */
function results(step) {
  const report = reportOf(step);
  if (!report) return new Map();
  if (report.testResults)
    return new Map(report.testResults.map((file) => [relative('.', file.name), ofFile(file)]));
  const { numTotalTests, numPassedTests, numFailedTests } = report;
  const notRun = numTotalTests - numPassedTests - numFailedTests;
  return new Map([[step, { passed: numPassedTests, failed: numFailedTests, notRun }]]);
}

/** A file that failed before its tests were known counts as one test that failed. */
function ofFile({ status, assertionResults }) {
  const withStatus = (wanted) => assertionResults.filter((test) => test.status === wanted).length;
  const [passed, failed] = [withStatus('passed'), withStatus('failed')];
  const notRun = assertionResults.length - passed - failed;
  return { passed, failed: failed + notRun === 0 && status !== 'passed' ? 1 : failed, notRun };
}
