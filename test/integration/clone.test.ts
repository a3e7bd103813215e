import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Person } from '@gpg-bridge/test-support/cli';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A copy of this tree: `npm start` builds, which would take the program away from other tests. */
async function copyOfTree(): Promise<string> {
  const clone = await tempDir();
  const isSource = (path: string) => !['node_modules', 'dist'].includes(basename(path));
  for (const name of ['package.json', 'tsconfig.json', 'scripts', 'packages']) {
    await cp(join(root, name), join(clone, name), { recursive: true, filter: isSource });
  }
  // What is linked into this tree is linked into the copy's own; the rest is what `npm ci` has installed.
  const [installed, own] = [join(root, 'node_modules'), join(clone, 'node_modules')];
  await mkdir(own);
  for (const name of await readdir(installed)) {
    const isLinked = name.includes('gpg-bridge');
    if (isLinked)
      await cp(join(installed, name), join(own, name), { recursive: true, verbatimSymlinks: true });
    else if (name !== '.bin') await symlink(join(installed, name), join(own, name));
  }
  return clone;
}

describe('in a clone, after `npm ci`', () => {
  it('npx runs the command', async () => {
    const env = { ...process.env, GPG_BRIDGE_STATE_DIR: await tempDir() };
    const done = await run('npx', ['--offline', 'gpg-bridge', 'status'], { cwd: root, env });
    expect(done.stdout.toString()).toMatch(/^No bridge is up/);
    expect(done.status).toBe(0);
  });

  it('`npm start -- up TARGET` runs the real thing', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const words = ['start', '--', 'up', `local:${target.dir}`];
    const said = await runOk('npm', words, { cwd: await copyOfTree(), env: person.env });
    expect(said).toContain(`✓ The bridge to local:${target.dir} is up`);
    await target.gpgOk(['--clear-sign'], { input: 'hello' });
  });
});

describe('without a clone', () => {
  it('one line installs the command and its manual page from the packed file', async () => {
    const dir = await tempDir();
    // Packed as it is built: building it again would take the program away from other tests.
    const pack = [
      'pack',
      '--silent',
      '--ignore-scripts',
      '--workspace=gpg-bridge',
      `--pack-destination=${dir}`,
    ];
    const file = (await runOk('npm', pack, { cwd: root })).trim().split('\n').at(-1)!;
    const line = `npm install -g ./${file}`;
    expect(await readFile(join(root, 'README.md'), 'utf8')).toContain(`\n${line}\n`);
    const prefix = join(dir, 'prefix');
    await mkdir(prefix);
    const [program, ...words] = line.split(' ');
    const env = { ...process.env, npm_config_offline: 'true' };
    await runOk(program!, [...words, '--prefix', prefix], { cwd: dir, env });
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(await runOk(join(prefix, 'bin/gpg-bridge'), ['--version'])).toBe(`${version}\n`);
    expect(await readFile(join(prefix, 'share/man/man1/gpg-bridge.1'), 'utf8')).toMatch(
      /^\.TH GPG\\-BRIDGE 1/,
    );
  });
});
