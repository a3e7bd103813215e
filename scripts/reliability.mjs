// Runs the tests of faults, and writes docs/reliability.md from their table if all have passed. With --no-run it
// only writes the page.
import { spawnSync } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const bundle = `${root}node_modules/.reliability-${process.pid}.mjs`;
await build({
  entryPoints: [`${root}test/integration/faults/page.ts`],
  bundle: true,
  format: 'esm',
  outfile: bundle,
});
const { renderPage } = await import(pathToFileURL(bundle).href).finally(() => rm(bundle));

if (!process.argv.includes('--no-run')) {
  // Not the test that compares the page, which is about to be written.
  const args = [
    'vitest',
    'run',
    'test/integration/faults',
    'test/system/faults',
    '--exclude',
    '**/page.test.ts',
  ];
  const { status } = spawnSync('npx', args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    process.stderr.write('not every cell has passed: docs/reliability.md stays as it is\n');
    process.exit(1);
  }
}
await writeFile(`${root}docs/reliability.md`, renderPage());
