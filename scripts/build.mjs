// Builds what is shipped: the socket servers, and the command with its library.
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

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

await Promise.all([
  // Sent through a pipe at every start, so it is made small.
  build({
    ...common,
    target: 'node18',
    entryPoints: [`${servers}/main.ts`],
    outfile: `${dist}/servers/server.cjs`,
    format: 'cjs',
    minify: true,
  }),
  ...['server.pl', 'server.py'].map((name) => copyFile(`${servers}/${name}`, `${dist}/servers/${name}`)),
  build({
    ...common,
    entryPoints: {
      'gpg-bridge': `${root}packages/cli/src/main.ts`,
      index: `${root}packages/cli/src/index.ts`,
    },
    outdir: dist,
    format: 'esm',
    splitting: true,
    minifySyntax: true,
    minifyWhitespace: true,
    banner: { js: '#!/usr/bin/env node' },
  }),
]);
