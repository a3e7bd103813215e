// Writes the state tables of the code into docs/architecture.md; with --check it only says whether they differ.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const page = `${root}docs/architecture.md`;
const bundle = `${root}node_modules/.state-tables-${process.pid}.mjs`;

await build({
  stdin: {
    contents: `export { AGENT_TABLE } from './agent-table.ts'; export { REQUEST_TABLE } from './request-table.ts';`,
    resolveDir: `${root}packages/core/src/machine`,
    loader: 'ts',
  },
  bundle: true,
  format: 'esm',
  outfile: bundle,
});
const { AGENT_TABLE, REQUEST_TABLE } = await import(pathToFileURL(bundle).href).finally(() => rm(bundle));

const before = await readFile(page, 'utf8');
let after = before;
for (const [name, table] of [
  ['agent-table', AGENT_TABLE],
  ['request-table', REQUEST_TABLE],
]) {
  const rows = Object.entries(table).flatMap(([from, row]) =>
    Object.entries(row).map(([event, to]) => `| ${from} | ${event} | ${to} |`),
  );
  const text = ['| from | event | to |', '| --- | --- | --- |', ...rows].join('\n');
  after = after.replace(
    new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`),
    (_, start, end) => `${start}${text}\n${end}`,
  );
}
if (process.argv.includes('--check')) {
  if (after !== before) {
    process.stderr.write('docs/architecture.md does not show the tables of the code: run `npm run docs`\n');
    process.exitCode = 1;
  }
} else if (after !== before) await writeFile(page, after);
