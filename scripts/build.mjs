// Builds what is shipped: the socket servers, and the command with its library.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, transform } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const servers = `${root}packages/socket-server/src`;
const dist = `${root}packages/cli/dist`;

await rm(dist, { recursive: true, force: true });
await mkdir(`${dist}/servers`, { recursive: true });

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  logLevel: 'warning',
  legalComments: 'none',
};
const small = { minifySyntax: true, minifyWhitespace: true };
/** There is no `import.meta` in CommonJS. */
const define = { 'import.meta.dirname': '__dirname' };

await Promise.all([
  // Sent through a pipe at every start, so it is made small.
  build({
    ...common,
    target: 'node18',
    entryPoints: [`${servers}/node/main.ts`],
    outfile: `${dist}/servers/server.cjs`,
    format: 'cjs',
    minify: true,
  }),
  copyFile(`${servers}/perl/server.pl`, `${dist}/servers/server.pl`),
  copyFile(`${servers}/python/server.py`, `${dist}/servers/server.py`),
  buildCommand(),
  build({
    ...common,
    ...small,
    define,
    entryPoints: { index: `${root}packages/cli/src/index.ts` },
    outdir: dist,
    format: 'cjs',
  }),
  writeFile(`${dist}/package.json`, '{ "type": "commonjs" }\n'),
]);

/**
 * The command is CommonJS, which Node loads in half the time that its loader of ES modules takes. esbuild
 * splits ES modules only, so it first makes those of it.
 */
async function buildCommand() {
  const main = `${root}packages/cli/src/main.ts`;
  const options = {
    ...common,
    ...small,
    define,
    absWorkingDir: root,
    entryPoints: { 'gpg-bridge': main },
    outdir: dist,
    format: 'esm',
    splitting: true,
    write: false,
  };
  const { metafile } = await build({ ...options, metafile: true });
  const { outputFiles } = await build({ ...options, plugins: [together(metafile, main)] });
  await Promise.all(
    outputFiles.map(async ({ path, text }) => {
      const { code } = await transform(text, {
        ...small,
        platform: 'node',
        target: 'node20',
        format: 'cjs',
        supported: { 'dynamic-import': false },
        banner: '#!/usr/bin/env node',
      });
      await writeFile(path, code);
    }),
  );
}

/**
 * Keeps what is always loaded in one file, since a file more takes longer to load than what is in it.
 * esbuild puts modules together that are needed by the same parts of a program; so every part that is
 * loaded later is made to need all that is there by then.
 */
function together({ inputs }, main) {
  const first = new Set();
  const later = new Set();
  const visit = (path) => {
    if (first.has(path)) return;
    first.add(path);
    for (const { path: needed, kind } of inputs[path].imports) {
      if (inputs[needed] && kind === 'import-statement') visit(needed);
    }
  };
  visit(relative(root, main));
  for (const { imports } of Object.values(inputs)) {
    for (const { path, kind } of imports) if (inputs[path] && kind === 'dynamic-import') later.add(path);
  }
  const prelude = [...first]
    .filter((path) => path.endsWith('.ts') && join(root, path) !== main)
    .map((path) => `import ${JSON.stringify(join(root, path))};`)
    .join('');
  return {
    name: 'together',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) =>
        later.has(relative(root, path))
          ? { contents: prelude + (await readFile(path, 'utf8')), loader: 'ts' }
          : undefined,
      );
    },
  };
}
