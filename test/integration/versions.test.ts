import { existsSync } from 'node:fs';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROGRAM } from '@gpg-bridge/test-support/cli';
import { type Finished, run, runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

const versionOf = async (dir: string): Promise<string> =>
  JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')).version;

const release = (dir: string, ...args: string[]): Promise<Finished> =>
  run(process.execPath, [join(dir, 'scripts/release.mjs'), ...args], { cwd: dir });

/** Those of these files that are there, in the root or in any package. */
async function existing(inRoot: readonly string[], inPackages: readonly string[]): Promise<string[]> {
  const packages = await readdir(join(root, 'packages'));
  const files = [
    ...inRoot,
    ...packages.flatMap((name) => inPackages.map((file) => `packages/${name}/${file}`)),
  ];
  return files.filter((file) => existsSync(join(root, file)));
}

/** A copy of everything that names the version, and of the script. */
async function copyOfTheTree(): Promise<string> {
  const dir = await tempDir();
  const files = await existing(
    ['scripts', 'package.json', 'package-lock.json', 'README.md', 'CHANGELOG.md'],
    ['package.json', 'manifest.json', 'CHANGELOG.md'],
  );
  for (const file of files) await cp(join(root, file), join(dir, file), { recursive: true });
  return dir;
}

it('every manifest, the lock file, the README and the changelogs agree on one version', async () => {
  const checked = await release(root, '--check');
  expect(checked.stderr).toBe('');
  expect(checked.stdout.toString()).toBe(`All files agree on ${await versionOf(root)}.\n`);
});

it('the command says that version', async () => {
  expect(await runOk(process.execPath, [PROGRAM, '--version'])).toBe(`${await versionOf(root)}\n`);
});

it('every page names the files of that version', async () => {
  const version = await versionOf(root);
  const docs = (await readdir(join(root, 'docs'), { recursive: true })).filter((file) =>
    file.endsWith('.md'),
  );
  const pages = await existing(
    ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...docs.map((file) => `docs/${file}`)],
    ['README.md'],
  );
  for (const page of pages) {
    if (page === 'packages/cli/README.md') continue; // a copy that packing leaves there
    const text = await readFile(join(root, page), 'utf8');
    const named = [...text.matchAll(/gpg-bridge(?:-agent|-request)?-(\d[\w.]*)\.(?:tgz|vsix)/g)];
    for (const [name, found] of named) expect(found, `${name} in ${page}`).toBe(version);
  }
});

it('sets a version everywhere at once', async () => {
  const dir = await copyOfTheTree();
  const set = await release(dir, '--version', '4.5.6');
  expect(set.stderr).toBe('');
  expect(set.stdout.toString()).toContain('Add a section "## 4.5.6" to:\n  CHANGELOG.md\n');
  for (const file of ['package.json', 'packages/cli/package.json', 'packages/vscode-pack/manifest.json']) {
    expect(JSON.parse(await readFile(join(dir, file), 'utf8')).version).toBe('4.5.6');
  }
  const { devDependencies } = JSON.parse(
    await readFile(join(dir, 'packages/test-support/package.json'), 'utf8'),
  );
  expect(new Set(Object.values(devDependencies))).toEqual(new Set(['4.5.6']));
  const lock = JSON.parse(await readFile(join(dir, 'package-lock.json'), 'utf8'));
  expect([lock.version, lock.packages[''].version, lock.packages['packages/cli'].version]).toEqual(
    Array(3).fill('4.5.6'),
  );
  expect(await readFile(join(dir, 'README.md'), 'utf8')).toContain('gpg-bridge-4.5.6.tgz');
  // And back again, byte for byte: nothing but the version has changed.
  await release(dir, '--version', await versionOf(root));
  for (const file of ['package-lock.json', 'packages/vscode-pack/manifest.json', 'README.md']) {
    expect(await readFile(join(dir, file), 'utf8')).toBe(await readFile(join(root, file), 'utf8'));
  }
});

it('names the files that disagree', async () => {
  const dir = await copyOfTheTree();
  const file = 'packages/vscode-agent/package.json';
  const text = await readFile(join(dir, file), 'utf8');
  await writeFile(join(dir, file), text.replace(/"version": "[^"]*"/, '"version": "9.9.9"'));
  const { status, stderr } = await release(dir, '--check');
  expect(status).toBe(1);
  expect(stderr).toMatch(/^release: package\.json has \S+, and these name another version: (\S+)\.\n/);
  expect(stderr).toContain(`: ${file}.\n`);
});

it('refuses a version without a section in the changelogs', async () => {
  const dir = await copyOfTheTree();
  await release(dir, '--version', '4.5.6');
  expect(await release(dir, '--check')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^release: No section "## 4\.5\.6" in: CHANGELOG\.md, /),
  });
});

it.each([['1.2'], ['v1.2.3'], ['1.2.3-beta.1'], ['01.2.3'], ['']])(
  'refuses %j as a version',
  async (version) => {
    const dir = await copyOfTheTree();
    expect(await release(dir, `--version=${version}`)).toMatchObject({
      status: 1,
      stderr: `release: "${version}" is not a version: three numbers, as in 1.2.3.\n`,
    });
  },
);

it('refuses a tag of another version', async () => {
  expect(await release(root, '--check', '--tag', 'v9.9.9')).toMatchObject({
    status: 1,
    stderr: `release: The tag is v9.9.9; for this version it is v${await versionOf(root)}.\n`,
  });
});
