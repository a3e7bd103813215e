import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Person, serverOf } from '@gpg-bridge/test-support/cli';
import { Patient } from '@gpg-bridge/test-support/doctor';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireRuntime, requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';

/** A person with a local target that has no bridge yet. */
async function withTarget(env: NodeJS.ProcessEnv = {}) {
  const person = await Person.create();
  const target = await person.localHome();
  const name = `local:${target.dir}`;
  return { person, target, name, patient: await Patient.create(person, [name], env) };
}

/** The same with a bridge. */
async function withBridge(...options: string[]) {
  const scene = await withTarget();
  await scene.person.ok('up', scene.name, ...options);
  return scene;
}

/** Every file of a home with its times: what shows that nothing was changed. */
async function everyFile(home: GnupgHome): Promise<string[]> {
  const names = await readdir(home.dir, { recursive: true });
  const files = await Promise.all(
    names.map(async (name) => `${name} ${(await stat(join(home.dir, name))).mtimeMs}`),
  );
  return files.sort();
}

describe('gpg-bridge doctor in a target', () => {
  it('finds no bridge, changes nothing, and finds nothing wrong after `up`', async () => {
    const { person, target, patient, name } = await withTarget();
    await rm(target.dir, { recursive: true });
    expect((await patient.report()).ok).toBe(true);
    await expect(stat(target.dir)).rejects.toThrow();
    await mkdir(target.dir, { mode: 0o700 });
    await patient.isCuredOf('line-bridge', { status: 'warn', detail: /no bridge is up/ });
    const before = await everyFile(target);
    const report = await patient.report();
    expect(report.ok).toBe(true);
    expect(await everyFile(target)).toEqual(before);
    const details = new Map(report.checks.map(({ id, detail }) => [id, detail]));
    expect(details.get('line-round-trip')).toMatch(
      /^\d+(\.\d)? ms until a command runs, .* there and back, .* to gpg-agent here and back$/,
    );
    expect(details.get('target-socket')).toBe(`${target.dir}/S.gpg-agent is the bridge's`);
    expect(details.get('target-keys')).toBe('1 public key of yours is there');
    expect(details.get('target-trust')).toBe('they are trusted');
    const shown = await person.ok('doctor', name);
    expect(shown).toMatch(/\nThe line to local:.*\n {2}✓ target/);
    expect(shown).toMatch(/\nIn local:/);
    expect(shown).toMatch(/\ngit in local:/);
  });

  it('says of a target without a bridge what is stored, and suggests nothing that is refused', async () => {
    const { person, target, name, patient } = await withBridge('--no-decrypt', '--for', '1h');
    await person.ok('down', name);
    expect(await patient.check('line-grant')).toMatchObject({
      status: 'ok',
      detail: expect.stringMatching(/once its bridge is up, .* may sign with every GPG key \(not decrypt\)/),
    });
    const directory = join(person.stateDir, 'grants');
    const path = join(directory, (await readdir(directory))[0]!);
    const stored = await readFile(path, 'utf8');
    await writeFile(path, stored.replace(/"until":"[^"]*"/, '"until":"2026-01-01T00:00:00.000Z"'));
    expect((await patient.check('line-grant'))?.detail).toMatch(
      / may use no key: its time \(--for\) was over/,
    );
    await patient.isCuredOf('line-bridge', { status: 'warn', detail: /its time \(--for\) was over/ });
    await person.ok('down', name);
    await writeFile(path, 'nonsense');
    const { ok, checks } = await patient.report();
    expect(ok).toBe(false);
    expect(checks.find(({ id }) => id === 'line-grant')).toMatchObject({
      status: 'fail',
      detail: expect.stringContaining(`can't read the restrictions in ${path}`),
    });
    expect(checks.find(({ id }) => id === 'line-bridge')?.fix).not.toContain('gpg-bridge up');
    expect(await readdir(target.dir)).not.toContain('S.gpg-agent');
  });

  it('signs, if there is a bridge', async () => {
    const { patient, name } = await withTarget();
    const signing = patient.with(name, '--sign');
    await signing.isCuredOf('sign', { status: 'fail', detail: /no bridge to gpg-agent is up/ });
    expect((await signing.check('sign'))?.detail).toMatch(
      /^a test signature of key [0-9A-F]{16} was made there/,
    );
  });

  it('a socket that nobody listens on', async () => {
    const { target, patient } = await withTarget();
    const path = join(target.dir, 'S.gpg-agent');
    await (await SocketHolder.start(path, 'silent')).end('SIGKILL');
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /nobody listens on/ });
  });

  it("the target's own gpg-agent", async () => {
    const { target, patient } = await withTarget();
    await target.launchAgent();
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /the target's own gpg-agent/ });
  });

  it('a program that does not answer', async () => {
    const { target, patient } = await withTarget();
    await SocketHolder.start(join(target.dir, 'S.gpg-agent'), 'silent');
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /does not answer: .*\(pid \d+\)/ });
  });

  it('another forward', async () => {
    const { person, target, patient } = await withTarget();
    const relayTo = await person.home.socket('agent-extra-socket');
    await SocketHolder.start(join(target.dir, 'S.gpg-agent'), { relayTo });
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /another forward is at/ });
  });

  it("a Dev Container's own forward, which also stays behind the bridge", async () => {
    const { person, target, patient } = await withTarget();
    const relayTo = await person.home.socket('agent-extra-socket');
    const script = join(await tempDir(), 'vscode-remote-containers-server-0.1.js');
    const holder = await SocketHolder.start(join(target.dir, 'S.gpg-agent'), { relayTo }, script);
    await patient.isCuredOf('target-socket', { status: 'warn', detail: /an editor's own forward is at/ });
    await patient.isCuredOf('target-second-forward', {
      status: 'warn',
      detail: new RegExp(`may take it back: .*\\(pid ${holder.pid}\\)`),
    });
  });

  requireRuntime('native')('over the native program', () => {
    it('another bridge behind this one, and does not take their servers for each other', async () => {
      const { person, target } = await withTarget();
      const enter = (name: string) =>
        writeScript(target.dir, name, `export GNUPGHOME=${target.dir} HOME=${target.dir}\nexec "$@"`);
      const [one, two] = [await enter('one'), await enter('two')];
      const first = await person.json<{ pid: number }>('up', '--exec', one, '--runtime=perl');
      await person.ok('up', '--exec', two, '--runtime=native', '--takeover');
      const { checks } = await (await Patient.create(person, ['--exec', two])).report();
      const server = await serverOf(first.pid);
      expect(checks.find(({ id }) => id === 'target-second-forward')).toMatchObject({
        detail: `another program had the socket, and may take it back: gpg-bridge socket server (pid ${server})`,
        fix: expect.stringMatching(new RegExp(`kill ${server}\\b`)),
      });
    });
  });

  it('a file in the way', async () => {
    const { target, patient } = await withTarget();
    await writeFile(join(target.dir, 'S.gpg-agent'), 'mine');
    await patient.isCuredOf('target-socket', { status: 'fail', detail: /is a regular file/ });
  });

  it("this machine's own agent, mounted", async () => {
    const { person } = await withTarget();
    const home = await tempDir();
    const exec = `env HOME=${home} GNUPGHOME=${person.home.dir}`;
    const patient = await Patient.create(person, ['--exec', exec]);
    await patient.isCuredOf('target-socket', { status: 'fail', detail: /the agent of this machine itself/ });
  });

  it('a directory that others can enter', async () => {
    const { target, patient } = await withTarget();
    await chmod(target.dir, 0o755);
    await patient.isCuredOf('target-gnupg-home', { status: 'warn', detail: /open to others \(mode 755\)/ });
  });

  it('options of GnuPG that stand in the way', async () => {
    const { target, patient } = await withTarget();
    await target.createKey('Own <own@example.org>');
    await writeFile(join(target.dir, 'gpg.conf'), 'no-autostart\n');
    await writeFile(join(target.dir, 'common.conf'), 'use-keyboxd\n');
    await patient.isCuredOf('target-autostart', { status: 'warn', detail: /no-autostart is set/ });
    await patient.isCuredOf('target-keyboxd', { status: 'warn', detail: /gpg 2\.2\.\d+ does not know/ });
  });

  it('private keys there that can not be used', async () => {
    const { person, target, name, patient } = await withTarget();
    await target.createKey('Own <own@example.org>');
    await person.ok('up', name);
    await patient.isCuredOf('target-own-keys', {
      status: 'warn',
      detail: /can't be used while the bridge is up/,
    });
  });

  it('public keys that are not there, or were not to come', async () => {
    const { target, patient } = await withBridge('--keys', 'none');
    await patient.isCuredOf('target-keys', { status: 'fail', detail: /public keys are not there/ });
    await rm(join(target.dir, 'pubring.kbx'));
    await patient.isCuredOf('target-keys', { status: 'fail', detail: /public keys are not there/ });
  });

  it('public keys that are not trusted', async () => {
    const { person, target, patient } = await withBridge();
    await rm(join(target.dir, 'trustdb.gpg'));
    await patient.isCuredOf('target-trust', { status: 'warn', detail: /not trusted there/ });
    await target.gpgOk(['--import-ownertrust'], { input: `${person.fingerprint}:3:\n` });
    await patient.isCuredOf('target-trust', { status: 'warn', detail: /trusts these keys never/ });
  });

  it('a copy of a public key that is older than the key', async () => {
    const { person, target, patient } = await withBridge('--keys', 'none');
    await person.home.gpgOk(['--quick-set-expire', person.fingerprint, 'seconds=1']);
    const old = await person.home.gpg(['--export', person.fingerprint]);
    await target.gpgOk(['--import'], { input: old.stdout });
    // It expires a second later, by the clock that gpg looks at.
    await expect
      .poll(() => target.gpgOk(['--with-colons', '--list-keys']), { timeout: 20_000 })
      .toMatch(/^pub:e:/m);
    await person.home.gpgOk(['--quick-set-expire', person.fingerprint, '1y']);
    await patient.isCuredOf('target-keys', {
      status: 'fail',
      detail: /there have expired, those here have not/,
    });
  });

  it('a bridge that uses other agents than this shell, and one that had none', async () => {
    const { person, name } = await withBridge();
    const first = await startSshAgent();
    const second = await startSshAgent();
    await first.addKey('first');
    await second.addKey('second');
    const shell = await Patient.create(person, [name], { SSH_AUTH_SOCK: first.socketPath });
    await shell.isCuredOf('line-agents', { status: 'warn', detail: /SSH_AUTH_SOCK was default and is/ });
    const other = await Patient.create(person, [name], { SSH_AUTH_SOCK: second.socketPath });
    await other.isCuredOf('line-agents', { status: 'warn', detail: /SSH_AUTH_SOCK was .* and is/ });
  });

  it('a login shell without SSH_AUTH_SOCK', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    await agent.addKey('mine');
    const home = await tempDir();
    const words = ['--exec', `env -u GNUPGHOME HOME=${home}`];
    const patient = await Patient.create(person, words, { SSH_AUTH_SOCK: agent.socketPath });
    await person.run(['up', ...words], { env: patient.env });
    await patient.isCuredOf('target-ssh-auth-sock', { status: 'warn', detail: /has no SSH_AUTH_SOCK/ });
  });

  it('a path that is too long', async () => {
    const person = await Person.create();
    const long = join(await tempDir(), 'x'.repeat(90));
    await mkdir(long);
    const far = await Patient.create(person, ['--exec', `env -u GNUPGHOME HOME=${long}`]);
    onTestFinished(() => rm(`/tmp/gpg-bridge-${process.getuid!()}`, { recursive: true, force: true }));
    await far.isCuredOf('target-socket-path', {
      status: 'fail',
      detail: /has \d+ bytes and a socket's may have/,
    });
  });

  it('a target without GnuPG, and one with a version that asks no agent', async () => {
    const person = await Person.create();
    const home = await tempDir();
    const bin = await tempDir();
    for (const program of ['sh', 'perl', 'env', 'id', 'cut', 'uname', 'grep', 'ls', 'sed', 'mkdir', 'ln']) {
      await runOk('ln', [
        '-s',
        (await runOk('sh', ['-c', `command -v ${program}`])).trim(),
        join(bin, program),
      ]);
    }
    await writeScript(bin, 'apt-get', `ln -sf /usr/bin/gpg /usr/bin/gpgconf ${bin}/`);
    const patient = await Patient.create(person, ['--exec', `env -i HOME=${home} PATH=${bin}`]);
    await patient.isCuredOf('target-gpg', { status: 'fail', detail: /no gpgconf on its PATH/ });
    await rm(join(bin, 'gpg'));
    await writeScript(bin, 'gpg', 'echo "gpg (GnuPG) 2.0.22"');
    await patient.isCuredOf('target-versions', {
      status: 'fail',
      detail: /gpg 2\.0\.22 there asks no agent/,
    });
  });

  requireSystem('root')('of another user', () => {
    it('a home that can not be written to', async () => {
      const person = await Person.create();
      const uid = 40_000 + (process.pid % 20_000);
      const patient = await Patient.create(person, [
        '--exec',
        `setpriv --reuid=${uid} --regid=${uid} --clear-groups env -u GNUPGHOME HOME=/nonexistent`,
      ]);
      onTestFinished(() => rm(`/tmp/gpg-bridge-${uid}`, { recursive: true, force: true }));
      await patient.isCuredOf('target-home', { status: 'fail', detail: /\/nonexistent, does not exist/ });
    });
  });

  it('a target that is not there', async () => {
    const person = await Person.create({ key: false });
    const gone = await Patient.create(person, ['--exec', '/nowhere/at-all']);
    const report = await gone.report();
    expect(report.ok).toBe(false);
    expect(report.checks.find(({ id }) => id === 'line-target')).toMatchObject({ status: 'fail' });
    expect((await person.run(['doctor', 'nokind:x'])).status).toBe(2);
  });

  it('prints a report in which nobody is named', async () => {
    const { person, target, name } = await withBridge();
    await runOk('git', ['config', '--global', 'user.email', 'ada@example.org'], { env: person.env });
    const report = await person.ok('doctor', name, '--sign', '--report');
    expect(report).toMatch(/^gpg-bridge \d/);
    expect(report).toContain('ok   target-socket: ');
    expect(report).toContain('ok   sign: ');
    for (const word of [
      'Ada',
      'example.org',
      person.fingerprint.slice(-16),
      target.dir,
      person.home.env.HOME!,
    ]) {
      expect(report).not.toContain(word);
    }
  });
});
