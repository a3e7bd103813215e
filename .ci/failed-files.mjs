// Prints the test files of a report of vitest's that failed, relative to the working directory; none without a report.
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

const path = process.argv[2];
const { testResults } = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : { testResults: [] };
for (const file of testResults) {
  if (file.status !== 'passed') console.log(relative('.', file.name));
}
