// Adds up the steps of `.ci/run`: for each NAME.status (its exit status), and NAME.json if it ran tests.
// A test that did not run counts as failed, and so does a step that failed without a failed test.
// What went wrong beside the tests (NAME.errors.json) counts as failed as well.
// Test files that were run again by themselves (NAME-again.json) count as they ended then. Each failure is named with
// the first lines of its message, also one that was gone the second time: of a long log only the end may be kept.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { reportOf, runErrors, testsOf } from './reports.mjs';

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
  for (const { file, message } of runErrors(dir, step)) {
    console.log(`${step}: beside the tests${file ? ` of ${file}` : ''}\n${beginning(message)}`);
    if (!again.has(file)) failures++;
  }
  // Vitest ends with 1 if a test failed. Whatever else the first run ended with, the second one does not make good.
  const first = statusOf(step);
  const status = again.size > 0 && first <= 1 ? statusOf(`${step}-again`) : first;
  if (failures === 0 && status !== 0) {
    console.log(`${step}: ${status === 124 ? 'did not end in time' : `failed with status ${status}`}`);
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

function statusOf(step) {
  return Number(readFileSync(join(dir, `${step}.status`), 'utf8'));
}

function tellFailures(step) {
  for (const { name, message, assertionResults = [] } of reportOf(dir, step)?.testResults ?? []) {
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

/** The counts of a step's report, for each file of tests; a report that knows no files is one. */
function results(step) {
  const report = reportOf(dir, step);
  if (!report || report.testResults) return testsOf(report);
  const { numTotalTests, numPassedTests, numFailedTests } = report;
  const notRun = numTotalTests - numPassedTests - numFailedTests;
  return new Map([[step, { passed: numPassedTests, failed: numFailedTests, notRun }]]);
}
