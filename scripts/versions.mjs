// The product has one version: that of the root's package.json. Every other place that names it is known here.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Whose changelogs are shipped; the command ships the root's. */
const CHANGELOGS = [
  'CHANGELOG.md',
  'packages/vscode-agent/CHANGELOG.md',
  'packages/vscode-request/CHANGELOG.md',
  'packages/vscode-pack/CHANGELOG.md',
];

/** The version that all others have to agree with. */
export function productVersion(root) {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
}

/** Whether it is three numbers: VS Code takes no other version. */
export function isVersion(text) {
  return /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)$/.test(text);
}

/** Writes a version wherever one stands, and returns the files that changed. */
export function setVersion(root, version) {
  const changed = changesFor(root, version);
  for (const { file, after } of changed) writeFileSync(join(root, file), after);
  return changed.map(({ file }) => file);
}

/** The files that name another version than the root's package.json. */
export function filesThatDisagree(root) {
  return changesFor(root, productVersion(root)).map(({ file }) => file);
}

/** The changelogs without a section for a version. */
export function changelogsWithout(root, version) {
  return CHANGELOGS.filter((file) => !headingOf(root, file, version));
}

/** The changelogs that still call a version unreleased. */
export function unreleasedChangelogs(root, version) {
  return CHANGELOGS.filter((file) => headingOf(root, file, version)?.includes('unreleased'));
}

function headingOf(root, file, version) {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  return lines.find((line) => line === `## ${version}` || line.startsWith(`## ${version} `));
}

function changesFor(root, version) {
  return places(root)
    .map(({ file, rewrite }) => {
      const before = readFileSync(join(root, file), 'utf8');
      return { file, before, after: rewrite(before, version, file) };
    })
    .filter(({ before, after }) => before !== after);
}

/** Each file that names the version, and how its text changes with it. */
function places(root) {
  const manifests = readdirSync(join(root, 'packages'))
    .flatMap((name) => [`packages/${name}/package.json`, `packages/${name}/manifest.json`])
    .filter((file) => existsSync(join(root, file)));
  return [
    ...['package.json', ...manifests].map((file) => ({ file, rewrite: rewriteManifest })),
    { file: 'package-lock.json', rewrite: rewriteLock },
    { file: 'README.md', rewrite: rewriteReadme },
  ];
}

/** As text, so that its layout stays. Packages of this workspace depend on each other in one version. */
function rewriteManifest(text, version, file) {
  const own = /^( {2}"version": ")[^"]*/m;
  if (!own.test(text)) throw new Error(`${file} has no version`);
  return text.replace(own, `$1${version}`).replace(/("@gpg-bridge\/[^"/]+": ")[^"]*/g, `$1${version}`);
}

/** npm writes this file in the same layout. */
function rewriteLock(text, version) {
  const { name, version: _version, ...lock } = JSON.parse(text);
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path !== '' && !path.startsWith('packages/')) continue;
    const { name: itsName, version: _its, ...facts } = entry;
    for (const dependency of Object.keys(facts.devDependencies ?? {})) {
      if (dependency.startsWith('@gpg-bridge/')) facts.devDependencies[dependency] = version;
    }
    lock.packages[path] = { name: itsName, version, ...facts };
  }
  return `${JSON.stringify({ name, version, ...lock }, undefined, 2)}\n`;
}

function rewriteReadme(text, version, file) {
  const tarball = /gpg-bridge-\d+\.\d+\.\d+\.tgz/g;
  if (text.search(tarball) < 0) throw new Error(`${file} does not name the tarball that npm makes`);
  return text.replace(tarball, `gpg-bridge-${version}.tgz`);
}
