import { personWithContainer, processesInside, type Up } from '@gpg-bridge/test-support/bridged';
import type { Container, ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, describe, expect, it } from 'vitest';

/** Where a container's user may write, and whether programs may be run from there. */
interface Place {
  user?: string;
  isReadOnly?: boolean;
  /** Further arguments of the engine's `run`. */
  args?: readonly string[];
  /** Run inside as root before the bridge comes. */
  prepare?: string;
}

/** Podman would put its own file systems over /tmp and others. */
const READ_ONLY = { docker: ['--read-only'], podman: ['--read-only', '--read-only-tmpfs=false'] };
const HOME_IN_MEMORY = '--tmpfs=/home/dev:exec,mode=0700';
const OWN_HOME = 'chown dev:dev /home/dev';
const NO_PROGRAMS = ['--tmpfs=/tmp:noexec,mode=1777', '--tmpfs=/dev/shm:noexec,mode=1777'];

const PLACES: Readonly<Record<string, Place>> = {
  'an ordinary container': {},
  'a container of an ordinary user': { user: 'dev' },
  'a container in which a user can write to its home alone': {
    user: 'dev',
    prepare: 'chmod 755 /tmp /var/tmp /dev/shm',
  },
  'a container with a read-only root and a home': {
    user: 'dev',
    isReadOnly: true,
    args: [HOME_IN_MEMORY],
    prepare: OWN_HOME,
  },
  'a container whose /tmp and /dev/shm run no programs': {
    user: 'dev',
    isReadOnly: true,
    args: [HOME_IN_MEMORY, ...NO_PROGRAMS],
    prepare: OWN_HOME,
  },
  'a container whose /tmp alone runs programs': {
    isReadOnly: true,
    args: ['--tmpfs=/root:noexec,mode=0700', '--tmpfs=/tmp:exec,mode=1777'],
  },
};

const SIGN = 'echo hello | gpg --batch -u ada@example.org --clear-sign | gpg --batch --status-fd 1 --verify';

describe.each(['docker', 'podman'] as const)('with %s', (kind) => {
  requireSystem(kind, 'native')('a target with nothing but a shell, GnuPG and git', () => {
    let engine: ContainerEngine;

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    async function personWithBusybox({ user, isReadOnly, args = [], prepare }: Place) {
      const { person, container, name } = await personWithContainer(engine, {
        image: 'busybox',
        ...(user ? { user } : {}),
        args: [...(isReadOnly ? READ_ONLY[kind] : []), ...args],
      });
      for (const language of ['perl', 'node']) {
        expect((await container.exec(['sh', '-c', `command -v ${language}`])).status).not.toBe(0);
      }
      if (prepare) await container.execOk(['sh', '-c', prepare], { user: 'root' });
      return { person, container, name };
    }

    /** Files of the program that are to be found by a name anywhere, and its processes. */
    async function leftOvers(container: Container): Promise<string> {
      const files = await container.exec(['sh', '-c', 'find / -xdev -name ".gpg-bridge*"'], { user: 'root' });
      const places = await container.exec(
        ['sh', '-c', 'ls -a /tmp /var/tmp /dev/shm /home/dev /root | grep gpg-bridge'],
        { user: 'root' },
      );
      return `${files.stdout}${places.stdout}`;
    }

    it.each(Object.entries(PLACES))('signs in %s', async (_, place) => {
      const { person, container, name } = await personWithBusybox(place);
      const up = await person.json<Up>('up', name);
      expect(up).toMatchObject({ runtime: 'native', sockets: [{ type: 'gpg-agent' }] });
      // It runs, and its file is gone.
      expect(await processesInside(container, '/proc/self/fd/4*')).toHaveLength(1);
      expect(await leftOvers(container)).toBe('');
      expect(await container.execOk(['sh', '-c', SIGN])).toMatch(/GOODSIG .*Ada Test.*TRUST_ULTIMATE/s);
      await person.ok('down', name);
      expect(await processesInside(container, '/proc/self/fd/4*')).toEqual([]);
      expect((await container.exec(['ls', up.sockets[0]!.path])).status).not.toBe(0);
    });

    it('signs a commit, and decrypts', async () => {
      const { person, container, name } = await personWithBusybox({ user: 'dev' });
      await person.home.addEncryptionKey(person.fingerprint);
      await person.ok('up', name);
      const git = `git -c user.name=A -c user.email=ada@example.org -c user.signingkey=${person.fingerprint}`;
      await container.execOk([
        'sh',
        '-c',
        `cd && git init -q r && cd r && ${git} commit -q --allow-empty -S -m x && git verify-commit HEAD`,
      ]);
      const decrypt = 'echo the secret | gpg --batch -r ada@example.org --encrypt | gpg --batch --decrypt';
      expect(await container.execOk(['sh', '-c', decrypt])).toBe('the secret\n');
      expect(await person.ok('log', name)).toMatch(/decrypted with Ada Test \S+ \S+: ok/);
    });

    it('says so where no program may be run, status 5', async () => {
      const args = [...NO_PROGRAMS, '--tmpfs=/root:noexec,mode=0700'];
      const { person, container, name } = await personWithBusybox({ isReadOnly: true, args });
      const done = await person.run(['up', name]);
      expect(done.stderr).toMatch(/neither Perl 5.*no directory that it may write to and run.*Install one/);
      expect(done.status).toBe(5);
      expect(await leftOvers(container)).toBe('');
    });

    it('names a machine that there is no program for, and escapes what it calls itself, status 5', async () => {
      // The shell of busybox has an uname of its own.
      const { person, container, name } = await personWithContainer(engine, { image: 'none' });
      const uname = '#!/bin/sh\nprintf "Linux \\033[31mriscv64"\n';
      await container.execOk(['sh', '-c', 'cat >/usr/bin/uname'], { input: uname });
      const done = await person.run(['up', name]);
      expect(done.stderr).toMatch(/Linux on x86-64 and arm64, and this is Linux .*riscv64/);
      expect(done.stderr).not.toContain('\u001b');
      expect(done.status).toBe(5);
    });

    it('is used where it is asked for', async () => {
      const { person, name } = await personWithContainer(engine, { image: 'git' });
      expect(await person.json<Up>('up', name, '--runtime=native')).toMatchObject({ runtime: 'native' });
    });
  });
});
