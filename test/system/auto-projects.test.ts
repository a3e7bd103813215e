import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { saysUp, startAuto, type Waiting } from '@gpg-bridge/test-support/auto';
import { signInside } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import { Container, type ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { lock } from '@gpg-bridge/test-support/lock';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { testedWith, versionOf } from '@gpg-bridge/test-support/tested-with';
import { beforeAll, expect, it, onTestFinished } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The lines for a project that docs/auto.md shows, by the language of the block. */
async function documented(language: string): Promise<string> {
  const page = await readFile(join(root, 'docs/auto.md'), 'utf8');
  const lines = new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, 'm').exec(page)?.[1];
  if (lines === undefined) throw new Error(`docs/auto.md has no block of ${language}`);
  return lines;
}

/** A person whose programs find this engine, and no Podman. */
function personAt(engine: ContainerEngine): Promise<Person> {
  return Person.create({ env: { ...engine.env, CONTAINER_HOST: 'unix:///nonexistent/sock' } });
}

requireSystem('docker', 'compose')('a compose project', () => {
  let engine: ContainerEngine;

  beforeAll(async () => {
    engine = await sharedEngine('docker');
  }, SETUP_MS);

  /** A project with the documented lines, and what the test's engine needs in a second file. */
  async function project(): Promise<{ directory: string; compose: (...words: string[]) => Promise<string> }> {
    const directory = await tempDir();
    await testedWith('compose', () => versionOf('docker-compose', '--version'));
    await writeFile(join(directory, 'docker-compose.yml'), await documented('yaml'));
    const image = await engine.ensureImage('busybox');
    const service = { image, command: ['sleep', 'infinity'], network_mode: 'none', stop_signal: 'SIGKILL' };
    await writeFile(join(directory, 'override.yml'), JSON.stringify({ services: { web: service } }));
    const files = ['-f', 'docker-compose.yml', '-f', 'override.yml', '--project-name', 'gbshop'];
    const compose = (...words: string[]) =>
      runOk('docker-compose', [...files, ...words], { cwd: directory, env: engine.env });
    onTestFinished(async () => void (await compose('down')));
    return { directory, compose };
  }

  it('gets its bridges by its name, and one cloned under that name is asked about', async () => {
    const person = await personAt(engine);
    const mine = await project();
    await person.ok('auto', 'add', '--compose', 'gbshop', '--no-ssh');
    const auto = await startAuto(person, 'docker');
    await mine.compose('up', '--detach');
    await auto.printed(/docker:gbshop\S+ waits: its image or its directory is new/, 'stderr');
    const waiting = await person.json<{ waiting: Waiting[] }>('auto', 'approve');
    expect(waiting.waiting).toMatchObject([{ rule: '--compose gbshop', directory: mine.directory }]);
    const name = waiting.waiting[0]!.container;
    expect(await person.ok('auto', 'approve', name)).toContain(mine.directory);
    await auto.printed(saysUp('docker', name), 'stderr');
    expect(await signInside(new Container(engine, name, name))).toContain('GOODSIG');
    await mine.compose('down');
    const cloned = await project();
    await cloned.compose('up', '--detach');
    await auto.printed((text) => text.split(`docker:${name} waits`).length === 3, 'stderr');
    expect((await person.json<{ waiting: Waiting[] }>('auto', 'list')).waiting).toMatchObject([
      { directory: cloned.directory },
    ]);
    expect(await person.json('status')).toEqual([]);
  });

  it('gets them by the label in its lines', async () => {
    const person = await personAt(engine);
    await person.ok('auto', 'add', '--label', 'gpg-bridge=yes', '--no-ssh');
    const auto = await startAuto(person, 'docker');
    const { compose } = await project();
    await compose('up', '--detach');
    await auto.printed(/docker:gbshop\S+ waits/, 'stderr');
    await person.ok('auto', 'approve', '--all');
    await auto.printed(saysUp('docker', 'gbshop\\S+'), 'stderr');
    expect(await person.json('status')).toMatchObject([{ state: 'ready', rule: '--label gpg-bridge=yes' }]);
  });
});

requireSystem('docker')('a dev container', () => {
  let engine: ContainerEngine;

  beforeAll(async () => {
    engine = await sharedEngine('docker');
    const unlock = await lock(join(root, 'node_modules/.devcontainers.lock'));
    const tools = join(root, 'tools/devcontainers');
    await runOk('npm', ['ci', '--prefix', tools, '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: root,
      limitMs: 300_000,
    });
    await unlock();
  }, SETUP_MS);

  it('gets its bridge by its folder, or by the label in its lines', async () => {
    const folder = await tempDir();
    await mkdir(join(folder, '.devcontainer'));
    const lines = JSON.parse(await documented('json')) as { image: string; runArgs: string[] };
    const image = await engine.ensureImage('plain');
    const configuration = { ...lines, image, runArgs: [...lines.runArgs, '--network=none'] };
    await writeFile(join(folder, '.devcontainer/devcontainer.json'), JSON.stringify(configuration));
    const program = join(root, 'tools/devcontainers/node_modules/@devcontainers/cli/devcontainer.js');
    await testedWith('devcontainers', () => versionOf(process.execPath, program, '--version'));
    const devcontainer = (...words: string[]) =>
      runOk(process.execPath, [program, ...words, '--workspace-folder', folder], { env: engine.env });
    const person = await personAt(engine);
    await person.ok('auto', 'add', '--label', `devcontainer.local_folder=${folder}`, '--trust', '--no-ssh');
    const auto = await startAuto(person, 'docker');
    const { containerId } = JSON.parse(await devcontainer('up')) as { containerId: string };
    const container = new Container(engine, containerId, basename(folder));
    onTestFinished(() => container.remove());
    await auto.printed(saysUp('docker', '\\S+'), 'stderr');
    expect(await person.json('status')).toMatchObject([
      { id: containerId, state: 'ready', rule: `--label devcontainer.local_folder=${folder}` },
    ]);
    const signed = await runOk(
      process.execPath,
      [program, 'exec', '--workspace-folder', folder, 'sh', '-c', 'echo hello | gpg --batch --clear-sign'],
      { env: engine.env },
    );
    expect(signed).toContain('BEGIN PGP SIGNATURE');
    // The label is one more way; its folder is new to a rule that asks.
    await person.ok('auto', 'remove', '--label', `devcontainer.local_folder=${folder}`);
    await person.ok('down', '--all');
    await person.ok('auto', 'add', '--label', 'gpg-bridge=yes', '--no-ssh');
    await engine.runOk(['restart', '--time=0', containerId]);
    await auto.printed(
      /docker:\S+ waits: its image or its directory is new to the rule --label gpg-bridge=yes/,
      'stderr',
    );
    const { waiting } = await person.json<{ waiting: Waiting[] }>('auto', 'list');
    expect(waiting).toMatchObject([{ directory: folder }]);
  });
});
