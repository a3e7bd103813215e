import { personWithContainer } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import { Patient } from '@gpg-bridge/test-support/doctor';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { startSshAgent } from '@gpg-bridge/test-support/ssh-agent';
import { startSystemdUser } from '@gpg-bridge/test-support/systemd-user';
import { beforeAll, describe, expect, it } from 'vitest';

describe.each(['docker', 'podman'] as const)('gpg-bridge doctor in a container of %s', (kind) => {
  requireSystem(kind)('that a person has', () => {
    let engine: ContainerEngine;

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    it('leads from a container that has never seen a bridge to a good signature', async () => {
      const { person, container, name } = await personWithContainer(engine);
      const agent = await startSshAgent();
      await agent.addKey('ada@example.org');
      const words = [name, '--user', 'dev'];
      const patient = await Patient.create(person, [...words, '--sign'], { SSH_AUTH_SOCK: agent.socketPath });
      const before = await container.execOk(['find', '/', '-xdev', '-newer', '/proc/1', '-type', 'f']);
      expect(await patient.check('line-bridge')).toMatchObject({ status: 'warn' });
      // Doctor leaves neither a file nor a process.
      expect(await container.execOk(['find', '/', '-xdev', '-newer', '/proc/1', '-type', 'f'])).toBe(before);
      await expect
        .poll(() => container.execOk(['sh', '-c', 'grep -l perl /proc/[0-9]*/comm || true']))
        .not.toContain('/proc');
      await patient.isCuredOf('sign', { status: 'fail', detail: /no bridge/ });
      await patient.isCuredOf('git-email', { status: 'warn', detail: /user\.email is not set/ });
      await patient.isCuredOf('target-ssh-auth-sock', { status: 'warn', detail: /has no SSH_AUTH_SOCK/ });
      await container.execOk(['sh', '-c', 'git config --global user.signingkey 0123456789ABCDEF'], {
        user: 'dev',
        env: { HOME: '/home/dev' },
      });
      await patient.isCuredOf('git-signing-key', {
        status: 'fail',
        detail: /no private key of this machine/,
      });
      const report = await patient.report();
      expect(report.checks.filter(({ status }) => status !== 'ok').map(({ id }) => id)).toEqual([
        'host-pinentry',
      ]);
    });

    it('a container that is stopped, and one that is paused', async () => {
      const { person, container, name } = await personWithContainer(engine);
      const patient = await Patient.create(person, [name]);
      await engine.runOk(['stop', container.name]);
      await patient.isCuredOf('line-target', { status: 'fail', detail: /not running|stopped/ });
      await engine.runOk(['pause', container.name]);
      await patient.isCuredOf('line-target', { status: 'fail', detail: /paused|stopped/ });
    });

    it('a file system that can only be read', async () => {
      const { person, name } = await personWithContainer(engine, { args: ['--read-only', '--tmpfs=/tmp'] });
      const patient = await Patient.create(person, [name]);
      await patient.isCuredOf('target-home', { status: 'fail', detail: /\/root, can't be written to/ });
    });

    it('a container in which nothing can run the other end', async () => {
      const { person, container, name } = await personWithContainer(engine, { image: 'none' });
      await container.execOk(['sh', '-c', 'printf "#!/bin/sh\necho Linux mips" >/usr/bin/uname']);
      const patient = await Patient.create(person, [name]);
      expect(await patient.check('line-target')).toMatchObject({
        status: 'fail',
        fix: expect.stringContaining('apt-get install -y perl-base || apk add perl'),
      });
    });
  });
});

requireSystem('docker')('gpg-bridge doctor about GnuPG 2.4', () => {
  it('knows that it works with 2.2, and finds a keyboxd that is missing', async () => {
    const { person, container, name } = await personWithContainer(await sharedEngine('docker'), {
      image: 'trixie',
    });
    const patient = await Patient.create(person, [name]);
    expect(await patient.check('target-versions')).toMatchObject({
      status: 'ok',
      detail: expect.stringMatching(/^gpg 2\.4\.\d+ there, gpg-agent 2\.2\.\d+ here; .* no harm$/),
    });
    const prepare = 'mkdir -m 700 -p ~/.gnupg && echo use-keyboxd > ~/.gnupg/common.conf';
    await container.execOk(['sh', '-c', prepare]);
    expect(await patient.check('target-keyboxd')).toMatchObject({ status: 'ok' });
    await person.ok('up', name);
    const keys = await patient.with(name, '--sign').report();
    for (const id of ['target-keys', 'target-trust', 'sign']) {
      expect(keys.checks.find((check) => check.id === id)).toMatchObject({ status: 'ok' });
    }
    // Debian has it in a package of its own.
    await container.execOk(['sh', '-c', "rm $(gpgconf --list-components | sed -n 's/^keyboxd:[^:]*://p')"]);
    await patient.isCuredOf('target-keyboxd', { status: 'fail', detail: /there is no keyboxd/ });
  });
});

requireSystem('systemd')('gpg-bridge doctor about systemd', () => {
  it('finds the sockets that it holds for gpg-agent', async () => {
    const { command } = await startSystemdUser();
    const person = await Person.create();
    const patient = await Patient.create(person, ['--exec', command]);
    await patient.isCuredOf('target-systemd', {
      status: 'warn',
      detail: /systemd listens for gpg-agent there \(gpg-agent\.socket, /,
    });
    await patient.isCuredOf('line-bridge', { status: 'warn', detail: /no bridge is up/ });
    expect(await patient.check('target-socket')).toMatchObject({ status: 'ok' });
  });
});
