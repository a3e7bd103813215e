// Adds up the steps of `.ci/run`: for each NAME.status (its exit status), and NAME.json if it ran tests.
// A test that did not run counts as failed, and so does a step that failed without a failed test.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const dir = process.argv[2];
let passed = 0;
let failed = 0;

for (const file of readdirSync(dir).filter((name) => name.endsWith('.status'))) {
  const step = file.replace(/\.status$/, '');
  const status = Number(readFileSync(join(dir, file), 'utf8'));
  const report = join(dir, `${step}.json`);
  let failures = 0;
  if (existsSync(report)) {
    const tests = JSON.parse(readFileSync(report, 'utf8'));
    const notRun = tests.numTotalTests - tests.numPassedTests - tests.numFailedTests;
    if (notRun > 0) console.log(`${step}: ${notRun} tests did not run`);
    passed += tests.numPassedTests;
    failures = tests.numFailedTests + notRun;
  }
  if (failures === 0 && status !== 0) {
    console.log(`${step}: failed with status ${status}`);
    failures = 1;
  }
  failed += failures;
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
