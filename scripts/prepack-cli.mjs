// Makes the command's package complete before npm packs it: built, with types and the pages people look for.
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = (script, ...args) =>
  execFileSync(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });

run('scripts/build.mjs');
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.types.json');
for (const page of ['README.md', 'LICENSE', 'CHANGELOG.md']) {
  copyFileSync(`${root}${page}`, `${root}packages/cli/${page}`);
}
