// Prints the test files of a step that did not pass, relative to the working directory; none without a report.
import { reportOf, runErrors, testsOf } from './reports.mjs';

const [dir, step] = process.argv.slice(2);
const files = new Set();
for (const [file, { failed, notRun }] of testsOf(reportOf(dir, step)))
  if (failed + notRun > 0) files.add(file);
for (const { file } of runErrors(dir, step)) if (file) files.add(file);
for (const file of files) console.log(file);
