// Writes docs/platforms.md. With --from FILE what a run of the tests noted in that file (GPG_BRIDGE_TESTED_WITH) is what
// the page shows from now on; with --check FILE nothing is written, and a run that used other parts fails.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values: flags } = parseArgs({ options: { from: { type: 'string' }, check: { type: 'string' } } });

const bundle = `${root}node_modules/.platforms-${process.pid}.mjs`;
await build({
  entryPoints: [`${root}test/integration/platforms/page.ts`],
  bundle: true,
  platform: 'node',
  format: 'esm',
  outfile: bundle,
});
const { differences, readNotes, renderPage } = await import(pathToFileURL(bundle).href).finally(() =>
  rm(bundle),
);

const data = `${root}docs/platforms.json`;
const said = JSON.parse(await readFile(data, 'utf8').catch(() => '{}'));
if (flags.check) {
  const met = readNotes(await readFile(flags.check, 'utf8').catch(() => ''));
  for (const [part, versions] of Object.entries(met)) console.log(`${part}: ${versions.join('; ')}`);
  const wrong = differences(said, met);
  for (const line of wrong) process.stderr.write(`${line}\n`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
} else {
  const tested = flags.from ? readNotes(await readFile(flags.from, 'utf8')) : said;
  const lines = Object.entries(tested).map(
    ([part, versions]) =>
      `  ${JSON.stringify(part)}: [${versions.map((version) => JSON.stringify(version)).join(', ')}]`,
  );
  await writeFile(data, `{\n${lines.join(',\n')}\n}\n`);
  await writeFile(`${root}docs/platforms.md`, renderPage(tested));
}
