// Builds what is shipped: the socket servers, and the command with its library.
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const servers = `${root}packages/socket-server/src`;
const cli = `${root}packages/cli/src`;
const dist = `${root}packages/cli/dist`;

/**
 * Modules that are bundles of their own, read when they are imported: compiling what a command does not use is most of
 * its start. An `up` that finds its bridge and a `status` need none of them.
 */
const LATE_MODULES = [
  'commands/auto.ts',
  'commands/completion.ts',
  'commands/demo.ts',
  'commands/doctor.ts',
  'commands/log.ts',
  'commands/serve.ts',
  'daemon/known-process.ts',
  'engine/endpoint.ts',
  'manager/bridge-starter.ts',
  'manager/stop-daemon.ts',
  'program.ts',
  'targets/container.ts',
  'targets/kubernetes.ts',
  'targets/spawned-targets.ts',
  'targets/ssh.ts',
];
const nameOf = (module) => basename(module, '.ts');

await rm(dist, { recursive: true, force: true });
await mkdir(`${dist}/servers`, { recursive: true });

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs', // Node loads it in half the time that its loader of ES modules takes
  logLevel: 'warning',
  legalComments: 'none',
};

/** A server travels as one text; the order is that of what has to be there before it runs. */
async function join(files, name) {
  const texts = await Promise.all(files.map((file) => readFile(`${servers}/${file}`, 'utf8')));
  await writeFile(`${dist}/servers/${name}`, texts.join(''));
}

/** Leaves the late modules out of what imports them with `import()`. */
const lateModules = {
  name: 'late-modules',
  setup({ onResolve }) {
    const late = new Set(LATE_MODULES.map((module) => resolve(cli, module)));
    onResolve({ filter: /^\.\.?\/.*\.ts$/ }, ({ kind, path, resolveDir }) => {
      const module = resolve(resolveDir, path);
      return kind === 'dynamic-import' && late.has(module)
        ? { path: `./${nameOf(module)}.js`, external: true }
        : undefined;
    });
  },
};

execFileSync(process.execPath, [`${root}scripts/build-native.mjs`], { stdio: 'inherit' });

await Promise.all([
  // Sent through a pipe at every start, so it is made small.
  build({
    ...common,
    target: 'node18',
    entryPoints: [`${servers}/node/main.ts`],
    outfile: `${dist}/servers/server.cjs`,
    minify: true,
  }),
  join(['perl/server.pl', 'perl/ahead.pl'], 'server.pl'),
  build({
    ...common,
    entryPoints: {
      'gpg-bridge': `${cli}/main.ts`,
      index: `${cli}/index.ts`,
      ...Object.fromEntries(LATE_MODULES.map((module) => [nameOf(module), `${cli}/${module}`])),
    },
    outdir: dist,
    minifySyntax: true,
    minifyWhitespace: true,
    define: { 'import.meta.dirname': '__dirname' }, // there is no `import.meta` in CommonJS
    supported: { 'dynamic-import': false }, // `require` is faster, and late enough
    plugins: [lateModules],
  }),
  writeFile(`${dist}/package.json`, '{ "type": "commonjs" }\n'),
  writeManPage(),
]);

/** The manual page comes from the same words as `--help`. */
async function writeManPage() {
  const { outputFiles } = await build({
    ...common,
    stdin: {
      contents: `import { manPage } from './commands/man-page.ts'; import { VERSION } from './version.ts'; module.exports = manPage(VERSION);`,
      resolveDir: cli,
      loader: 'ts',
    },
    write: false,
  });
  const page = { exports: '' };
  new Function('module', 'require', outputFiles[0].text)(page, createRequire(import.meta.url));
  await writeFile(`${dist}/gpg-bridge.1`, page.exports);
}

// npm makes no link to a program that is not there yet when it links: with this one `npx gpg-bridge` works in a clone.
const bin = `${root}node_modules/.bin`;
const program = '../../packages/cli/dist/gpg-bridge.js';
await chmod(`${dist}/gpg-bridge.js`, 0o755);
await mkdir(bin, { recursive: true });
if (process.platform === 'win32') {
  await writeFile(`${bin}/gpg-bridge.cmd`, `@node "%~dp0\\${program.replaceAll('/', '\\')}" %*\r\n`);
} else {
  await rm(`${bin}/gpg-bridge`, { force: true });
  await symlink(program, `${bin}/gpg-bridge`);
}
