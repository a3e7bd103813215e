import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { Patient } from '@gpg-bridge/test-support/doctor';
import { ScriptedPinentry } from '@gpg-bridge/test-support/pinentry';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { Terminal } from '@gpg-bridge/test-support/terminal';
import { describe, expect, it, onTestFinished } from 'vitest';

/** For what asks a person in the test's own words. */
async function scripted(): Promise<ScriptedPinentry> {
  const pinentry = await ScriptedPinentry.create('');
  onTestFinished(() => pinentry.remove());
  return pinentry;
}

describe('gpg-bridge doctor on the host', () => {
  it('finds nothing wrong where nothing is, and says what it looked at', async () => {
    const person = await Person.create({ env: { GPG_TTY: '/dev/pts/0' } });
    await person.home.killAgent();
    const agent = await startSshAgent();
    await agent.addKey('me@here');
    const patient = await Patient.create(person, [], { SSH_AUTH_SOCK: agent.socketPath });
    const report = await patient.report();
    expect(report.ok).toBe(true);
    expect(report.checks.map(({ id, status, fix }) => [id, status, fix])).toEqual(
      [
        'host-gpg',
        'host-gpgconf',
        'host-home',
        'host-agent',
        'host-extra-socket',
        'host-keys',
        'host-keys-expired',
        'host-keys-revoked',
        'host-pinentry',
        'host-ssh-agent',
        'host-state',
      ].map((id) => [id, 'ok', null]),
    );
    expect(report.checks.find(({ id }) => id === 'host-agent')?.detail).toContain('was started');
    const shown = await person.run(['doctor'], { env: { SSH_AUTH_SOCK: agent.socketPath } });
    expect(shown.stdout.toString()).toMatch(/^This machine\n {2}✓ gpg +GnuPG/);
    expect(shown.stdout.toString()).toMatch(/\nEverything is as it should be\.\n$/);
    expect(shown.stdout.toString()).not.toContain('\x1b');
  });

  it('an extra socket that gpg-agent was told not to make', async () => {
    const person = await Person.create({ agentConf: 'extra-socket none\n' });
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-extra-socket', { status: 'fail', detail: /is missing at/ });
  });

  it('an extra socket that is not the restricted one', async () => {
    const person = await Person.create();
    const extra = await person.home.socket('agent-extra-socket');
    await runOk('rm', [extra]);
    await writeFile(extra, `%Assuan%\nsocket=${await person.home.socket('agent-socket')}\n`);
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-extra-socket', { status: 'fail', detail: /not gpg-agent's restricted/ });
  });

  it('a home of GnuPG that others can enter', async () => {
    const person = await Person.create();
    await chmod(person.home.dir, 0o755);
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-home', { status: 'warn', detail: /open to others \(mode 755\)/ });
  });

  it('no key', async () => {
    const pinentry = await scripted();
    const person = await Person.create({ key: false, agentConf: pinentry.agentConf });
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-keys', { status: 'fail', detail: /no private key/ });
  });

  it('a key that has expired, and one that soon will', async () => {
    const person = await Person.create({ key: false });
    const old = await person.home.createKey('Old <old@example.org>', { expired: true });
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-keys-expired', { status: 'warn', detail: /^expired: [0-9A-F]{16} \(Old/ });
    await person.home.gpgOk(['--quick-set-expire', old, '5d']);
    await patient.isCuredOf('host-keys-expired', { status: 'warn', detail: /^expires soon: .* on \d{4}-/ });
    // Subkeys have dates of their own.
    await person.home.addEncryptionKey(old);
    await person.home.gpgOk(['--quick-set-expire', old, '5d']);
    await patient.isCuredOf('host-keys-expired', { status: 'warn', detail: /^expires soon/ });
  });

  it('revoked keys, if there are no others', async () => {
    const pinentry = await scripted();
    const person = await Person.create({ agentConf: pinentry.agentConf });
    await person.home.revokeKey(person.fingerprint);
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-keys-revoked', { status: 'fail', detail: /^revoked: .*Ada Test/ });
  });

  it('a pinentry that is not there', async () => {
    const person = await Person.create({
      env: { GPG_TTY: '/dev/pts/0' },
      agentConf: 'pinentry-program /nowhere/pinentry\n',
    });
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-pinentry', {
      status: 'fail',
      detail: /\/nowhere\/pinentry, which can't be run/,
    });
  });

  requireSystem('tmux')('at a terminal', () => {
    it('a pinentry that can not show itself', async () => {
      const dir = await tempDir();
      const curses = await writeScript(dir, 'pinentry-curses', 'exit 1');
      const { GPG_TTY: _tty, DISPLAY: _display, WAYLAND_DISPLAY: _wayland, ...env } = process.env;
      const person = await Person.create({ env, agentConf: `pinentry-program ${curses}\n` });
      const patient = await Patient.create(person);
      const before = await patient.check('host-pinentry');
      expect(before).toMatchObject({ status: 'warn', detail: expect.stringContaining("can't show itself") });
      const terminal = await Terminal.start('sh', patient.env);
      await terminal.type(`PS1=; ${before!.fix}; echo do''ne`);
      await terminal.press('Enter');
      await terminal.shows(/^done$/m);
      expect(await patient.check('host-pinentry')).toMatchObject({
        status: 'ok',
        detail: expect.stringMatching(/^pinentry-curses at GPG_TTY=\/dev\/pts\/\d+$/),
      });
    });
  });

  it('no ssh-agent, one that is gone, and one without keys', async () => {
    const person = await Person.create();
    const agent = await startSshAgent();
    const ssh = join(person.home.env.HOME!, '.ssh');
    await mkdir(ssh, { mode: 0o700 });
    await runOk('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(ssh, 'id_ed25519')]);
    // ssh-add itself looks in the home that the user database has.
    const bin = await tempDir();
    await writeScript(
      bin,
      'ssh-add',
      `exec ${await runOk('sh', ['-c', 'command -v ssh-add'])} ${ssh}/id_ed25519`.replace('\n', ''),
    );
    const PATH = `${bin}${delimiter}${person.env.PATH}`;
    const without = await Patient.create(person, [], { PATH });
    const kill = 'eval "$(ssh-agent -k)" >&2';
    await without.isCuredOf('host-ssh-agent', { status: 'warn', detail: /SSH_AUTH_SOCK is not set/ }, kill);
    const gone = await Patient.create(person, [], { PATH, SSH_AUTH_SOCK: join(ssh, 'gone') });
    await gone.isCuredOf('host-ssh-agent', { status: 'warn', detail: /gone, and / }, kill);
    const empty = await Patient.create(person, [], { PATH, SSH_AUTH_SOCK: agent.socketPath });
    await empty.isCuredOf('host-ssh-agent', { status: 'warn', detail: /has no keys/ });
  });

  it('a state directory that can not be used', async () => {
    const person = await Person.create({ key: false });
    await mkdir(person.stateDir, { mode: 0o755, recursive: true });
    await writeFile(join(person.stateDir, 'something'), '');
    const patient = await Patient.create(person);
    await patient.isCuredOf('host-state', { status: 'fail', detail: /others may look into it \(mode 755\)/ });
    const long = await Patient.create(person, [], {
      GPG_BRIDGE_STATE_DIR: join(person.stateDir, 'x'.repeat(90)),
    });
    await long.isCuredOf('host-state', { status: 'fail', detail: /too long for a socket/ });
  });

  it('shows every bridge, and one whose daemon hangs', async () => {
    const person = await Person.create();
    const target = await person.localHome();
    const name = `local:${target.dir}`;
    const { pid } = await person.json<{ pid: number }>('up', name);
    const patient = await Patient.create(person);
    expect(await patient.check(`bridge:${name}`)).toMatchObject({
      status: 'ok',
      detail: expect.stringContaining(`${target.dir}/S.gpg-agent`),
    });
    process.kill(pid, 'SIGSTOP');
    await patient.isCuredOf(`bridge:${name}`, { status: 'fail', detail: /does not answer/ });
  });

  it('refuses words that mean nothing', async () => {
    const person = await Person.create({ key: false });
    for (const words of [['--sign'], ['--json', '--report'], ['a', 'b']]) {
      expect((await person.run(['doctor', ...words])).status).toBe(2);
    }
  });
});
