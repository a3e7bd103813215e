import { chmod, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Person, PROGRAM, untilGone } from '@gpg-bridge/test-support/cli';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { PATIENT } from '@gpg-bridge/test-support/patient';
import { run, runOk } from '@gpg-bridge/test-support/process';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it } from 'vitest';
import { shellQuote } from '../../packages/cli/src/targets/shell-quote.ts';

interface Up {
  target: string;
  id: string;
  pid: number;
  started: string;
  runtime: string;
  sockets: { type: string; path: string }[];
}

/** A signature made in a target's home by a key that is not there. */
async function sign(home: GnupgHome): Promise<void> {
  const signed = await home.gpgOk(['--clear-sign'], { input: 'hello\n' });
  const verdict = await home.gpg(['--status-fd', '1', '--verify'], { input: signed });
  expect(verdict.stdout.toString()).toMatch(/GOODSIG .* Ada Test/);
  expect(await readdir(join(home.dir, 'private-keys-v1.d')).catch(() => [])).toEqual([]);
}

describe('gpg-bridge with a local target', () => {
  it('brings a bridge up, shows it, and ends it', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;

    const said = await person.ok('up', name);
    expect(said).toContain(`The bridge to ${name} is up`);
    expect(said).toContain(`gpg  ${target.dir}/S.gpg-agent`);
    expect(said).toContain('gpg --clear-sign');
    expect(said).toContain(`gpg-bridge down ${name}`);
    expect(said).not.toContain('\x1b');

    await sign(target);
    expect(await target.socket('agent-socket')).toBe(`${target.dir}/S.gpg-agent`);
    expect((await stat(`${target.dir}/S.gpg-agent`)).mode & 0o777).toBe(0o600);

    // gpg has ended a moment before its session has.
    await expect.poll(() => person.ok('status', name), PATIENT).toMatch(/0 open, [12] in all/);
    const status = await person.ok('status', name);
    expect(status).toMatch(/ up for \d+ s/);
    expect(status).toMatch(/signed with Ada Test <ada@example.org> [0-9A-F]{16}: ok/);

    expect(await person.ok('log', name)).toMatch(
      /^[-\d]+ [:\d]+Z {2}local:\S+ {2}signed with Ada Test <ada@example.org> [0-9A-F]{16}: ok after \d+ ms \(session \d+\)$/m,
    );
    expect(await person.ok('env', name)).toBe(
      `export GNUPGHOME=${target.dir}\n# no ssh-agent is bridged there\n`,
    );

    expect(await person.ok('down', name)).toBe(`The bridge to ${name} is down.\n`);
    expect(await person.ok('down', name)).toBe(`There was no bridge to ${name}.\n`);
    expect(await person.ok('status')).toMatch(/^No bridge is up/);
    expect((await readdir(target.dir)).filter((file) => file.startsWith('S.'))).toEqual([]);
    expect((await person.files()).map((file) => file.replace(/.*\./, '')).sort()).toEqual(['log', 'uses']);
  });

  it('prints one document with --json, of the shape that is documented', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const up = await person.json<Up>('up', name, '--keys=pairs');
    const grant = {
      gpgKeys: 'all',
      decrypt: true,
      sshKeys: [],
      confirm: false,
      notify: false,
      passphrase: false,
      until: null,
      idle: null,
    };
    expect(up).toEqual({
      target: name,
      user: '',
      id: target.dir,
      pid: expect.any(Number),
      started: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      runtime: 'perl',
      sockets: [{ type: 'gpg-agent', path: `${target.dir}/S.gpg-agent` }],
      warnings: ['there is no ssh-agent to bridge: SSH_AUTH_SOCK is not set'],
      offers: { gpg: 1, ssh: null, canSign: true },
      notes: [],
      problems: [],
      result: 'new',
      changes: [],
      mended: [],
      grant,
      variables: { GNUPGHOME: target.dir },
    });
    const bridge = {
      target: name,
      user: '',
      id: target.dir,
      pid: up.pid,
      state: 'ready',
      runtime: 'perl',
      sockets: up.sockets,
      options: { keys: 'pairs', gnupgHome: person.home.dir },
      grant,
      uptimeSeconds: expect.any(Number),
      sessions: { open: 0, total: 0 },
      bytes: { toHost: 0, toTarget: 0 },
      waiting: null,
      lastOperation: null,
      lastError: null,
      problems: [],
      nextAttempt: null,
      endsAt: null,
      paused: null,
      rule: null,
    };
    expect(await person.json('status')).toEqual([bridge]);
    await sign(target);
    const operation = {
      time: expect.any(String),
      session: expect.any(Number),
      command: 'PKSIGN',
      operation: 'signature',
      key: expect.stringMatching(/^[0-9A-F]{40}$/),
      name: 'Ada Test <ada@example.org>',
      fingerprint: person.fingerprint,
      outcome: 'ok',
      durationMs: expect.any(Number),
      person: expect.any(Boolean),
    };
    expect(await person.json('status', name)).toEqual([
      {
        ...bridge,
        sessions: { open: 0, total: expect.any(Number) },
        bytes: { toHost: expect.any(Number), toTarget: expect.any(Number) },
        lastOperation: operation,
      },
    ]);
    expect(await person.json('log', name)).toEqual([{ ...operation, target: name }]);
    await person.ok('down', name);
    expect(await person.json('status')).toEqual([]);
    const none = await person.run(['status', name, '--json']);
    expect([none.status, none.stdout.toString()]).toEqual([3, '[]\n']);
    // What was asked can still be looked up when the bridge is over.
    expect(await person.json('log', name)).toEqual([{ ...operation, target: name }]);
  });

  it('leaves a running bridge as it is, and changes it for other options', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const first = await person.json<Up>('up', name, '--runtime', 'perl');
    expect(first.runtime).toBe('perl');
    expect(await person.json<Up>('up', name, '--runtime', 'perl')).toEqual({ ...first, result: 'running' });
    expect(await person.ok('up', name, '--runtime', 'perl')).toContain('was up already, and works');
    const changed = await person.ok('up', name, '--runtime', 'node');
    expect(changed).toContain('was changed');
    expect(changed).toContain('  --runtime: perl → node\n');
    const [status] = await person.json<{ pid: number }[]>('status');
    expect(status?.pid).not.toBe(first.pid);
    await sign(target);
  });

  describe.each(['node', 'perl', 'native'] as const)('over %s', (runtime) => {
    requireRuntime(runtime)('alone', () => {
      it('signs, with a host agent that nobody started', async () => {
        const person = await Person.create();
        const target = await person.localHome();
        await person.home.killAgent();
        const up = await person.json<Up>('up', `local:${target.dir}`, '--runtime', runtime);
        expect(up.runtime).toBe(runtime);
        await sign(target);
      });
    });
  });

  it('makes the directory, and knows it by every name', async () => {
    const person = await Person.create();
    const dir = join(await tempDir(), 'new');
    const up = await person.json<Up>('up', `local:${dir}`);
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
    const { stdout } = await person.run(['status', 'local:new/../new', '--json'], { cwd: join(dir, '..') });
    expect(JSON.parse(stdout.toString())).toMatchObject([{ pid: up.pid }]);
    await person.ok('down', `local:${dir}/`);
    expect(await person.json('status')).toEqual([]);
  });

  it('makes nothing when it is only asked', async () => {
    const person = await Person.create({ key: false });
    const dir = join(await tempDir(), 'new');
    await person.ok('down', `local:${dir}`);
    expect((await person.run(['status', `local:${dir}`])).status).toBe(3);
    for (const command of ['log', 'env']) {
      expect(await person.run([command, `local:${dir}`])).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/^gpg-bridge: there is no bridge to .* Start one with .*\n$/),
      });
    }
    await expect(stat(dir)).rejects.toThrow('ENOENT');
    await expect(stat(person.stateDir)).rejects.toThrow('ENOENT');
  });

  it('reaches a target through any command with --exec', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    await writeScript(dir, 'enter', `export GNUPGHOME=${target.dir} HOME=${dir}\nexec "$@"`);
    // A relative command is meant from where the person stands.
    const up = await person.run(['up', '--exec', './enter', '--json'], { cwd: dir });
    expect(JSON.parse(up.stdout.toString())).toMatchObject({
      target: './enter',
      id: './enter',
      sockets: [{ type: 'gpg-agent', path: `${target.dir}/S.gpg-agent` }],
    });
    await sign(target);
    expect(await person.json('status', '--exec', './enter')).toHaveLength(1);
    expect(await person.ok('down', '--exec', './enter')).toContain('is down');
  });

  it('takes the same command in other surroundings for another target', async () => {
    const person = await Person.create();
    const dir = await tempDir();
    await writeScript(dir, 'enter', 'export GNUPGHOME="$KUBECONFIG" HOME="$KUBECONFIG"\nexec "$@"');
    const [one, two] = [await person.localHome(), await person.localHome()];
    const exec = ['--exec', join(dir, 'enter')];
    const run = (args: string[], home: GnupgHome) => person.run(args, { env: { KUBECONFIG: home.dir } });
    expect(await run(['up', ...exec], one)).toMatchObject({ status: 0 });
    expect((await run(['down', ...exec], two)).stdout.toString()).toContain('There was no bridge');
    expect(await run(['up', ...exec], two)).toMatchObject({ status: 0 });
    for (const home of [one, two]) await sign(home);
    expect((await run(['down', ...exec], one)).stdout.toString()).toContain('is down');
    await sign(two);
  });

  it('gives hints that a shell takes as they are', async () => {
    const person = await Person.create();
    const dir = join(await tempDir(), "a home of Ada's");
    await mkdir(dir);
    const target = await person.localHome();
    const enter = await writeScript(dir, 'enter it', `export GNUPGHOME=${target.dir}\nexec "$@"`);
    for (const words of [[`local:${dir}`], ['--exec', shellQuote(enter)]]) {
      const said = await person.ok('up', ...words);
      const [, hint] = /End it with: gpg-bridge (.*)/.exec(said)!;
      const pasted = await runOk('sh', ['-c', `${process.execPath} ${PROGRAM} ${hint}`], { env: person.env });
      expect(pasted).toContain('is down');
    }
  });

  it('keeps the state directory and everything in it for its owner alone', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await mkdir(person.stateDir);
    await chmod(person.stateDir, 0o755);
    const carefree = ['-c', 'umask 000; exec "$@"', 'sh', process.execPath, PROGRAM];
    await runOk('sh', [...carefree, 'up', `local:${target.dir}`], { env: person.env });
    expect((await stat(person.stateDir)).mode & 0o777).toBe(0o700);
    const files = await person.files();
    expect(files.map((name) => name.replace(/.*\./, '')).sort()).toEqual(['log', 'pid', 'sock']);
    for (const name of files)
      expect((await stat(join(person.stateDir, name))).mode & 0o777, name).toBe(0o600);
  });

  it('has nothing in its log but lines of its own: no complaint of the Node that runs it', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`);
    await sign(target);
    await person.ok('down', `local:${target.dir}`);
    const lines = (await readFile(await person.file('.log'), 'utf8')).trim().split('\n');
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatch(/^\{"time":.*\}$/);
  });

  it('runs in the foreground with its files where it is told, and ends at a signal', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    const serve = person.start(['serve', `--target=local:${target.dir}`, `--pid-file=${dir}/b.pid`, '--gpg']);
    await serve.printed(/bridged local:/, 'stderr');
    expect((await readdir(dir)).sort()).toEqual(['b.log', 'b.pid', 'b.sock']);
    expect(Number(await readFile(`${dir}/b.pid`, 'utf8'))).toBe(serve.child.pid);
    await sign(target);
    serve.child.kill('SIGTERM');
    expect(await serve.exited).toBe(0);
    expect(await readdir(dir)).toEqual(['b.log']);
    await expect(stat(`${target.dir}/S.gpg-agent`)).rejects.toThrow('ENOENT');
  });

  it('does not stay when the state directory goes away under it', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`);
    // The daemon may write to its log at the same time.
    await rm(person.stateDir, { recursive: true, maxRetries: 10 });
    await untilGone(`${target.dir}/S.gpg-agent`);
    await person.ok('up', `local:${target.dir}`);
    await sign(target);
  });

  it('follows the log as it grows', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    await person.ok('up', `local:${target.dir}`);
    const log = person.start(['log', `local:${target.dir}`, '-f']);
    await log.printed(/bridged local:/);
    await sign(target);
    await log.printed(/signed with .* [0-9A-F]{16}: ok/);
    log.child.kill('SIGINT');
    expect(await log.exited).toBe(0);
  });
});

describe('a target that can not be had', () => {
  /** Runs `up` with programs of these names in place of the real ones. */
  async function up(args: readonly string[], programs: Record<string, string>, env: NodeJS.ProcessEnv = {}) {
    const person = await Person.create({ key: false });
    const dir = await tempDir();
    for (const [name, body] of Object.entries(programs)) await writeScript(dir, name, body);
    const done = await person.run(['up', ...args], {
      cwd: dir,
      env: { ...env, PATH: `${dir}:${process.env.PATH}` },
    });
    expect(done.stderr).toMatch(/^gpg-bridge: [^\n]+: [^\n]+\. [^\n]+\n$/);
    expect(done.stdout.toString()).toBe('');
    expect(await person.files()).toEqual([]);
    return done;
  }

  it('is status 3 when there is no engine', async () => {
    const { status, stderr } = await up(
      ['box'],
      { docker: 'echo "Cannot connect to the Docker daemon at unix:///nowhere" >&2; exit 1' },
      { DOCKER_HOST: 'unix:///nowhere/docker.sock' },
    );
    expect(stderr).toMatch(/Docker|docker/);
    expect(status).toBe(3);
  });

  it('is status 3 when ssh does not get there, in the words of ssh', async () => {
    const { status, stderr } = await up(['ssh:me@nowhere'], {
      ssh: 'echo "ssh: Could not resolve hostname nowhere" >&2; exit 255',
    });
    expect(stderr).toContain(
      "can't run a command in ssh:me@nowhere: ssh: Could not resolve hostname nowhere.",
    );
    expect(stderr).toContain('See whether `ssh me@nowhere` works.');
    expect(status).toBe(3);
  });

  it('is status 3 when its command is not installed', async () => {
    const { status, stderr } = await up(['--exec', '/nowhere/enter'], {});
    expect(stderr).toMatch(/\/nowhere\/enter.*not found/);
    expect(status).toBe(3);
  });

  it('is status 5 when it has nothing to run the server on', async () => {
    const { status, stderr } = await up(['--exec', './enter', '--runtime=perl'], {
      enter: 'PATH=/nowhere exec /bin/"$@"',
    });
    expect(stderr).toContain("nothing in ./enter can run the bridge's end: it has no usable perl.");
    expect(status).toBe(5);
  });

  it('is said to print something else', async () => {
    const { status, stderr } = await up(['--exec', './enter'], { enter: 'echo welcome to the machine' });
    expect(stderr).toContain('it printed "welcome to the machine".');
    expect(status).toBe(1);
  });

  it('may print something before', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const dir = await tempDir();
    await writeScript(
      dir,
      'enter',
      `export GNUPGHOME=${target.dir} HOME=${dir}\necho Last login: now\nexec "$@"`,
    );
    await person.ok('up', '--exec', join(dir, 'enter'));
    await sign(target);
  });
});

/** The command alone: nobody's agents, no state. */
const bare = (...args: string[]) =>
  run(process.execPath, [PROGRAM, ...args], { env: { ...process.env, GPG_BRIDGE_STATE_DIR: '/nowhere' } });

describe('wrong usage', () => {
  it.each([
    [['nonsense'], "wrong usage: there is no command 'nonsense'. See `gpg-bridge --help`."],
    [['up', '--nonsense'], "wrong usage of up: unknown option '--nonsense'. See `gpg-bridge up --help`."],
    [['down'], 'wrong usage of down: it needs a target, or --all. See `gpg-bridge down --help`.'],
    [['down', 'x', '--all'], /exclude each other/],
    [
      ['down', '--all', '--user=dev'],
      'wrong usage of down: --user needs a target. See `gpg-bridge down --help`.',
    ],
    [
      ['status', '--user=dev'],
      'wrong usage of status: --user needs a target. See `gpg-bridge status --help`.',
    ],
    [['log', '--user=dev'], /wrong usage of log: --user needs a target/],
    [['doctor', '--user=dev'], /wrong usage of doctor: --user needs a target/],
    [['keys', 'sync', '--user=dev'], /wrong usage of keys: --user needs a target/],
    [['up'], /can't tell which target is meant: none is named\. Name one, for example/],
    [['up', 'ftp:x'], /there is no kind 'ftp'/],
    [['up', 'x', '--user=a', '--user=b'], /--user is given 2 times/],
    [['up', 'x', '--no-gpg', '--no-ssh'], /with --no-gpg and --no-ssh nothing is left to bridge/],
    [['up', 'x', '--no-ssh', '--ssh-key=a'], /--ssh-key and --no-ssh exclude each other/],
    [['up', 'x', '--no-ssh', '--ssh-from-gpg'], /--ssh-from-gpg and --no-ssh exclude each other/],
    [['up', 'x', '--ssh-key=all,a'], /--ssh-key all stands alone/],
    [['up', 'ftp:x\ny'], /there is no kind 'ftp'|names nothing/],
    [['serve'], /it needs --container or --target/],
    [['serve', '--target=local:/tmp', '--pid-file=/nowhere/x.pid'], /there is no directory \/nowhere/],
  ])('%j is one line on stderr, and status 2', async (args, expected) => {
    const { status, stdout, stderr } = await bare(...args);
    expect(stderr).toMatch(/^gpg-bridge: [^\n]+: [^\n]+\. [^\n]+\n$/);
    if (typeof expected === 'string') expect(stderr).toBe(`gpg-bridge: ${expected}\n`);
    else expect(stderr).toMatch(expected);
    expect(stdout.toString()).toBe('');
    expect(status).toBe(2);
  });

  it('with --verbose shows the code and where it came from', async () => {
    const { stderr } = await bare('up', 'ftp:x', '--verbose');
    expect(stderr).toMatch(/\nUSAGE\n.*\n\s+at /);
  });

  it('helps', async () => {
    const text = async (...args: string[]) => {
      const { status, stdout, stderr } = await bare(...args);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      return stdout.toString();
    };
    expect(await text('--help')).toContain('Usage: gpg-bridge COMMAND');
    expect(await text('up', '--help')).toBe(await text('help', 'up'));
    expect(await text('--version')).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await bare()).status).toBe(2);
  });
});
