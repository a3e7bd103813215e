// Prints the test files of a report of vitest's that failed, relative to the working directory.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const { testResults } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
for (const file of testResults) {
  if (file.status !== 'passed') console.log(relative('.', file.name));
}
