import { once } from 'node:events';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { delimiter, join } from 'node:path';
import { startAuto } from '@gpg-bridge/test-support/auto';
import { Person } from '@gpg-bridge/test-support/cli';
import { EVIL, expectHarmless } from '@gpg-bridge/test-support/harmless';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

const ID = 'a'.repeat(64);
const IMAGE = 'b'.repeat(64);

/** What the engine says of its only container. */
interface Said {
  labels?: Record<string, string>;
  imageName?: string;
  imageStatus?: number;
}

/**
 * An engine with one container that runs and in which nothing can be run. No real one can be made to fail so, nor to
 * say such words.
 */
async function engineWith({
  labels = {},
  imageName = 'dev',
  imageStatus = 200,
}: Said): Promise<NodeJS.ProcessEnv> {
  const path = join(await tempDir(), 's');
  const container = {
    Id: ID,
    Name: '/box',
    Image: `sha256:${IMAGE}`,
    State: { Running: true, StartedAt: '2026-01-01T00:00:00Z' },
    Config: { User: '', Image: imageName, Labels: labels },
  };
  const answers: Readonly<Record<string, [number, unknown]>> = {
    '/_ping': [200, 'OK'],
    '/containers/json': [200, [{ Id: ID, Names: ['/box'] }, { Id: EVIL }, null]],
    [`/containers/${ID}/json`]: [200, container],
    [`/images/${IMAGE}/json`]: [
      imageStatus,
      imageStatus === 200 ? { Config: { Labels: {} } } : { message: EVIL },
    ],
  };
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/events')) {
      response.writeHead(200).flushHeaders(); // and never a word
      return;
    }
    const [status, body] = answers[request.url ?? ''] ?? [500, { message: `no: ${EVIL}` }];
    response.writeHead(status).end(JSON.stringify(body));
  }).listen(path);
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { DOCKER_HOST: `unix://${path}`, CONTAINER_HOST: 'unix:///nonexistent/sock' };
}

/** Words of `auto` that are refused, and with what. */
const WRONG: readonly [words: string[], message: RegExp][] = [
  [['add'], /a rule has one of NAME-PATTERN, --compose PROJECT and --label KEY=VALUE/],
  [['add', 'a', '--compose', 'b'], /a rule has one of/],
  [['add', 'a b'], /can't be the name of a container/],
  [['add', 'ssh:box'], /can't be the name of a container/],
  [['add', '--label', 'x'], /--label takes KEY=VALUE/],
  [['add', 'a', '--for', 'soon'], /--for takes no 'soon'/],
  [['add', 'a', '--no-gpg', '--no-ssh'], /nothing is left to bridge/],
  [['approve', 'a', '--all'], /names or --all/],
];

describe('rules', () => {
  it('are added, listed and removed by their words', async () => {
    const person = await Person.create({ key: false });
    expect(await person.ok('auto', 'list')).toContain('There are no rules.');
    expect(await person.ok('auto', 'add', 'dev-*', '--user', 'dev')).toMatch(
      /The rule dev-\* is kept\.[\s\S]*gpg-bridge auto approve[\s\S]*gpg-bridge auto install/,
    );
    expect(await person.json('auto', 'add', '--label', 'a=b c', '--trust')).toMatchObject({
      rule: '--label a=b c',
      result: 'new',
      trust: true,
    });
    expect(await person.ok('auto', 'add', 'dev-*', '--no-ssh')).toContain('The rule dev-* was changed.');
    expect(await person.ok('auto', 'add', 'dev-*', '--for', '1h')).toContain('The rule dev-* was changed.');
    expect(
      (await person.json<{ rules: { options: object }[] }>('auto', 'list')).rules[0]!.options,
    ).toMatchObject({
      user: 'dev',
      ssh: false,
      for: '1h',
    });
    const listed = await person.ok('auto', 'list');
    expect(listed).toContain("'dev-*' --no-ssh --user=dev --for=1h  (nothing approved yet)");
    expect(listed).toContain("--label 'a=b c'  (trusts every image)");
    expect(listed).toContain('Nothing watches the engines');
    expect(await person.json('auto', 'list')).toMatchObject({
      rules: [
        { rule: 'dev-*', options: { ssh: false, gnupgHome: person.home.dir } },
        { rule: '--label a=b c', trust: true },
      ],
      waiting: [],
      running: null,
    });
    const missing = await person.run(['auto', 'remove', 'dev-']);
    expect(missing).toMatchObject({ status: 1, stderr: expect.stringContaining('Did you mean dev-*?') });
    await person.ok('auto', 'remove', 'dev-*');
    expect((await person.json<{ rules: unknown[] }>('auto', 'list')).rules).toHaveLength(1);
  });

  it('are refused for words that select nothing, or make no bridge', async () => {
    const person = await Person.create({ key: false });
    for (const [words, message] of WRONG) {
      const done = await person.run(['auto', ...words]);
      expect(done).toMatchObject({ status: 2, stderr: expect.stringMatching(message) });
    }
    expect((await person.json<{ rules: unknown[] }>('auto', 'list')).rules).toEqual([]);
  });
});

it('a rule that one of its bridges can not keep to holds for the others', async () => {
  const person = await Person.create();
  person.env.SSH_AUTH_SOCK = (await startSshAgent()).socketPath;
  await person.ok('auto', 'add', 'box', '--trust');
  const names = [await person.localHome(), await person.localHome()].map(({ dir }) => `local:${dir}`).sort();
  for (const name of names) {
    const bridge = person.start(['serve', '--target', name, '--rule', 'box']);
    await bridge.printed(/bridged/, 'stderr');
  }
  await person.ok('up', names[0]!, '--no-ssh');
  const added = await person.run(['auto', 'add', 'box', '--no-gpg']);
  expect(added).toMatchObject({ status: 2, stderr: expect.stringContaining('nothing is left to bridge') });
  expect(added.stdout.toString()).toMatch(/was changed[\s\S]*holds at once for one bridge/);
  const bridges = await person.json<{ target: string; grant: { gpgKeys: unknown } }[]>('status');
  expect(bridges.map(({ target, grant }) => [target, grant.gpgKeys])).toEqual([
    [names[0], 'all'],
    [names[1], []],
  ]);
});

it('a changed rule takes nothing away again that a person has given back by name', async () => {
  const person = await Person.create();
  const { dir } = await person.localHome();
  await person.ok('auto', 'add', 'box', '--trust', '--confirm');
  const bridge = person.start(['serve', '--target', `local:${dir}`, '--rule', 'box', '--confirm']);
  await bridge.printed(/bridged/, 'stderr');
  await person.ok('up', `local:${dir}`, '--no-confirm');
  await person.ok('auto', 'add', 'box', '--no-decrypt');
  expect(await person.json('status')).toMatchObject([{ grant: { confirm: false, decrypt: false } }]);
});

describe('auto run', () => {
  it('shows what an engine says without anything that a terminal would obey', async () => {
    const labels = { 'devcontainer.local_folder': EVIL, team: 'a' };
    const person = await Person.create({ key: false, env: await engineWith({ labels, imageName: EVIL }) });
    await person.ok('auto', 'add', '--label', 'team=a');
    const auto = await startAuto(person, 'docker');
    await auto.printed(/docker:box waits: its image or its directory is new/, 'stderr');
    for (const words of [
      ['approve'],
      ['list'],
      ['approve', '--json'],
      ['list', '--json'],
      ['approve', 'box'],
    ]) {
      const { stdout, stderr, status } = await person.run(['auto', ...words]);
      expect(status).toBe(0);
      expectHarmless(`${stdout}${stderr}`);
    }
    await auto.printed(/docker:box: .*next attempt/, 'stderr');
    expectHarmless(auto.stderr);
  });

  it('takes no label for the container’s own where its image can’t be looked at', async () => {
    const env = await engineWith({ labels: { team: 'a' }, imageStatus: 404 });
    const person = await Person.create({ key: false, env });
    await person.ok('auto', 'add', '--label', 'team=a', '--trust');
    const auto = await startAuto(person, 'docker');
    await auto.printed(/docker:box: its labels count for nothing/, 'stderr');
    expectHarmless(auto.stderr);
    expect(await person.json('status')).toEqual([]);
  });

  it('tries a bridge that fails again, after longer pauses', async () => {
    const person = await Person.create({ key: false, env: await engineWith({}) });
    const auto = await startAuto(person, 'docker');
    // Rules take effect while it runs.
    await person.ok('auto', 'add', 'b?x', '--trust');
    await auto.printed(/docker:box: .*\(next attempt in 0\.5 s\)[\s\S]*\(next attempt in 1 s\)/, 'stderr');
    await person.ok('auto', 'remove', 'b?x');
    expect(await person.json('auto', 'list')).toMatchObject({ running: { pid: auto.child.pid } });
  });

  it('starts no bridge by a file with a mistyped option, says so, and goes on when it is repaired', async () => {
    const person = await Person.create({ key: false, env: await engineWith({}) });
    await person.ok('auto', 'add', 'other', '--confirm');
    const auto = await startAuto(person, 'docker');
    const path = join(person.stateDir, 'auto-rules.json');
    const good = (await readFile(path, 'utf8'))
      .replace('other', 'box')
      .replace('"trust": false', '"trust": true');
    const write = async (text: string) => {
      await writeFile(`${path}.edited`, text);
      await rename(`${path}.edited`, path);
    };
    await write(good.replace('"confirm"', '"confrim"'));
    await auto.printed(/no new bridge is started.*options\.confrim.*Did you mean "confirm"\?/, 'stderr');
    for (const words of [['list'], ['add', 'more'], ['remove', 'box'], ['approve', '--all']]) {
      expect(await person.run(['auto', ...words])).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/rule 1 .*options\.confrim/),
      });
    }
    expect(JSON.parse((await person.run(['auto', 'list', '--json'])).stdout.toString())).toMatchObject({
      error: { code: 'RULES_UNREADABLE' },
    });
    const before = auto.stderr.length;
    await write(good);
    await auto.printed(/docker:box: .*next attempt/, 'stderr');
    // Nothing was tried by the rule in the broken file.
    expect(auto.stderr.slice(0, before)).not.toContain('docker:box');
    await person.ok('auto', 'remove', 'box');
  });

  it('does not start with such a file', async () => {
    const person = await Person.create({ key: false, env: await engineWith({}) });
    await person.ok('auto', 'add', 'box', '--confirm', '--trust');
    const path = join(person.stateDir, 'auto-rules.json');
    await writeFile(path, (await readFile(path, 'utf8')).replace('"confirm"', '"confrim"'));
    const done = await person.run(['auto', 'run']);
    expect(done).toMatchObject({ status: 1, stderr: expect.stringContaining('options.confrim') });
    expect(done.stderr).not.toContain('docker:box');
  });

  it('asks about what waits by its name, and shows a notice', async () => {
    const person = await Person.create({ key: false, env: await engineWith({}) });
    const dir = await tempDir();
    const shown = join(dir, 'shown');
    await writeScript(dir, 'notify-send', `echo "$@" >${shown}.new && mv ${shown}.new ${shown}`);
    person.env.PATH = `${dir}${delimiter}${person.env.PATH}`;
    await person.ok('auto', 'add', 'box');
    const auto = await startAuto(person, 'docker');
    await auto.printed(/docker:box waits: its image is new to the rule box/, 'stderr');
    const notice = () => readFile(shown, 'utf8').catch(() => '');
    await expect.poll(notice, PATIENT).toContain('docker:box waits for you: gpg-bridge auto approve');
    const wrong = await person.run(['auto', 'approve', 'bax']);
    expect(wrong).toMatchObject({ status: 1, stderr: expect.stringContaining('Did you mean box?') });
    expect(await person.ok('auto', 'approve')).toContain(`image      dev (${IMAGE.slice(0, 12)})`);
    expect(await person.ok('auto', 'approve', 'box')).toContain('Approved: box');
    expect(await person.ok('auto', 'approve')).toBe('Nothing waits for you.\n');
    expect(await person.ok('auto', 'list')).toContain('(1 image approved)');
  });

  it('watches an engine once that is found as Docker and as Podman', async () => {
    const env = await engineWith({});
    const person = await Person.create({ key: false, env: { ...env, CONTAINER_HOST: env.DOCKER_HOST } });
    await person.ok('auto', 'add', 'box');
    const auto = person.start(['auto', 'run']);
    await auto.printed(/podman:box waits/, 'stderr');
    expect(auto.stderr).not.toContain('docker');
  });
});
