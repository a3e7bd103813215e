// Makes the three VSIX files in dist/vscode, or in the directory that is given. Each extension is staged as it will be installed (one bundle,
// its manifest and its pages), so that nothing else can slip into it, and packed from there.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, cp, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const output = resolve(process.argv[2] ?? join(root, 'dist/vscode'));
const largest = 300 * 1024;
const vsce = join(root, 'tools/node_modules/@vscode/vsce/vsce');
const run = promisify(execFile);

// The pack has a manifest.json: npm allows one workspace of a name, and `gpg-bridge` is the command line's.
const extensions = [
  { folder: 'vscode-agent', manifest: 'package.json', bundle: true, assets: ['l10n'] },
  { folder: 'vscode-request', manifest: 'package.json', bundle: true, assets: ['l10n'] },
  { folder: 'vscode-pack', manifest: 'manifest.json', bundle: false, assets: ['media'] },
];

async function stage({ folder, manifest, bundle, assets }) {
  const source = join(root, 'packages', folder);
  const target = join(output, folder);
  const facts = JSON.parse(await readFile(join(source, manifest), 'utf8'));
  // What only the repository needs: the sources are modules, the bundle is not.
  const { type, private: _private, devDependencies, ...shipped } = facts;
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  const listed = { ...shipped, files: ['**/*'] }; // the staged folder holds nothing else
  await writeFile(join(target, 'package.json'), `${JSON.stringify(listed, undefined, 2)}\n`);
  const pages = ['README.md', 'CHANGELOG.md', 'package.nls.json', 'package.nls.de.json'];
  for (const page of pages) await copyFile(join(source, page), join(target, page));
  for (const asset of assets) await cp(join(source, asset), join(target, asset), { recursive: true });
  await copyFile(join(root, 'LICENSE'), join(target, 'LICENSE'));
  await copyFile(join(source, 'icon.png'), join(target, 'icon.png'));
  if (bundle) {
    await build({
      entryPoints: [join(source, 'src/extension.ts')],
      outfile: join(target, shipped.main),
      bundle: true,
      platform: 'node',
      target: 'node20',
      format: 'cjs',
      external: ['vscode'],
      minify: true,
      // Names in a log or a stack trace stay readable.
      keepNames: true,
      legalComments: 'none',
      logLevel: 'warning',
    });
  }
  return { target, file: join(output, `${shipped.name}-${shipped.version}.vsix`) };
}

async function pack({ target, file }) {
  const { stdout, stderr } = await run(process.execPath, [vsce, 'package', '--out', file], { cwd: target });
  const warning = `${stdout}\n${stderr}`.split('\n').find((line) => /\bwarning\b/i.test(line));
  if (warning) throw new Error(`vsce says about ${target}: ${warning}`);
  const { size } = await stat(file);
  if (size > largest) throw new Error(`${file} has ${size} bytes, more than the ${largest} it may have`);
  return size;
}

// vsce has some hundred dependencies of its own, so it is installed apart, and only when it is needed.
if (!existsSync(vsce)) await run('npm', ['ci', '--ignore-scripts', '--prefix', join(root, 'tools')]);

for (const extension of extensions) {
  const staged = await stage(extension);
  const size = await pack(staged);
  console.log(`${staged.file} ${(size / 1024).toFixed(0)} KiB`);
}
