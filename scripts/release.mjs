// Makes what a release consists of in dist/release. It publishes nothing.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  changelogsWithout,
  filesThatDisagree,
  isVersion,
  productVersion,
  setVersion,
  unreleasedChangelogs,
} from './versions.mjs';

const HELP = `Usage: npm run release [-- OPTIONS]

Makes the files of a release in dist/release: the npm tarball of the command, the
three VSIX files, an SBOM of the command (CycloneDX), and SHA256SUMS. Publishes nothing.

First it checks that every manifest, the lock file and the README name the version of
package.json, that the changelogs have a section for it, and that nothing is uncommitted.

  --version X.Y.Z  write this version everywhere, and make nothing
  --check          check the versions and the changelogs, and make nothing
  --tag TAG        also check that TAG is this version with a v in front, and that
                   no changelog calls it unreleased
  --allow-dirty    go on with uncommitted changes
  --help           show this
`;

const EXTENSIONS = ['gpg-bridge-agent', 'gpg-bridge-request', 'gpg-bridge'];

const root = fileURLToPath(new URL('..', import.meta.url));
const output = join(root, 'dist/release');

/** What is wrong with the tree or the arguments, for a person to put right. */
class Refusal extends Error {}

function main() {
  const options = readOptions();
  if (options.help) return process.stdout.write(HELP);
  if (options.version !== undefined) return changeVersion(options.version);
  const version = productVersion(root);
  checkVersions(version);
  checkChangelogs(version);
  if (options.tag !== undefined) checkTag(options.tag, version);
  if (options.check) return console.log(`All files agree on ${version}.`);
  if (!options['allow-dirty']) checkClean();
  makeAll(version);
}

function readOptions() {
  try {
    return parseArgs({
      options: {
        version: { type: 'string' },
        check: { type: 'boolean' },
        tag: { type: 'string' },
        'allow-dirty': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    throw new Refusal(`${error.message}\n\n${HELP}`);
  }
}

function changeVersion(version) {
  if (!isVersion(version)) throw new Refusal(`"${version}" is not a version: three numbers, as in 1.2.3.`);
  const changed = setVersion(root, version);
  console.log(changed.length === 0 ? `All files have ${version} already.` : `${version} is now in:`);
  for (const file of changed) console.log(`  ${file}`);
  const missing = changelogsWithout(root, version);
  if (missing.length > 0) console.log(`Add a section "## ${version}" to:\n  ${missing.join('\n  ')}`);
}

function checkVersions(version) {
  const files = filesThatDisagree(root);
  if (files.length === 0) return;
  throw new Refusal(
    `package.json has ${version}, and these name another version: ${files.join(', ')}.\n` +
      `Run \`npm run release -- --version ${version}\`.`,
  );
}

function checkChangelogs(version) {
  const files = changelogsWithout(root, version);
  if (files.length > 0) throw new Refusal(`No section "## ${version}" in: ${files.join(', ')}.`);
}

function checkTag(tag, version) {
  if (tag !== `v${version}`) throw new Refusal(`The tag is ${tag}; for this version it is v${version}.`);
  const files = unreleasedChangelogs(root, version);
  if (files.length > 0) throw new Refusal(`${version} is still called unreleased in: ${files.join(', ')}.`);
}

function checkClean() {
  const changes = execFileSync('git', ['status', '--porcelain'], { cwd: root, encoding: 'utf8' });
  if (changes === '') return;
  throw new Refusal(
    `There are uncommitted changes. Commit them, or use --allow-dirty.\n${changes.trimEnd()}`,
  );
}

function makeAll(version) {
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const tarball = makeTarball(version);
  makeExtensions(version);
  makeSbom(tarball, version);
  writeChecksums();
  show();
}

function makeTarball(version) {
  npm(['pack', '--workspace=gpg-bridge', `--pack-destination=${output}`], root);
  return join(output, `gpg-bridge-${version}.tgz`);
}

function makeExtensions(version) {
  npm(['run', 'package'], root);
  for (const name of EXTENSIONS) {
    const file = `${name}-${version}.vsix`;
    copyFileSync(join(root, 'dist/vscode', file), join(output, file));
  }
}

/**
 * Made from the tarball, which is what is shipped: asked in the workspace, npm describes the workspace, with its
 * packages as components. npm takes the name from the folder, and refuses if a development dependency is missing.
 */
function makeSbom(tarball, version) {
  const temporary = mkdtempSync(join(tmpdir(), 'gpg-bridge-release-'));
  try {
    const folder = join(temporary, 'gpg-bridge');
    mkdirSync(folder);
    execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', folder]);
    npm(['pkg', 'delete', 'devDependencies'], folder);
    const text = npm(['sbom', '--sbom-format=cyclonedx', '--sbom-type=application'], folder, 'pipe');
    const { name, version: itsVersion } = JSON.parse(text).metadata.component;
    if (name !== 'gpg-bridge' || itsVersion !== version) {
      throw new Error(`npm made an SBOM of ${name} ${itsVersion}`);
    }
    writeFileSync(join(output, `gpg-bridge-${version}.cdx.json`), text);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** In the format of sha256sum, so that `sha256sum --check SHA256SUMS` reads it. */
function writeChecksums() {
  const lines = readdirSync(output)
    .sort()
    .map((file) => `${sha256(join(output, file))}  ${file}\n`);
  writeFileSync(join(output, 'SHA256SUMS'), lines.join(''));
}

function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

function show() {
  console.log(`\nMade in ${output}:`);
  for (const file of readdirSync(output).sort()) {
    const kib = readFileSync(join(output, file)).length / 1024;
    console.log(`  ${kib.toFixed(1).padStart(7)} KiB  ${file}`);
  }
}

/** Runs npm. What it prints is shown, or returned with `pipe`. */
function npm(args, cwd, stdout = 'inherit') {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', stdout, 'inherit'] });
}

try {
  main();
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}
