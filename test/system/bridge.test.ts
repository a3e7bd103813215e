import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { personWithContainer, processesInside, signInside, type Up } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import type { ImageName } from '@gpg-bridge/test-support/engine/images';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { LARGE_KEYRING_KEYS, largeKeyring } from '@gpg-bridge/test-support/large-keyring';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

requireSystem('docker')('gpg-bridge with a Docker container', () => {
  let docker: ContainerEngine;

  beforeAll(async () => {
    docker = await sharedEngine('docker');
  }, SETUP_MS);

  it.each<[ImageName, string]>([
    ['plain', 'perl'],
    ['git', 'perl'],
    ['node', 'node'],
    ['trixie', 'perl'],
    ['none', 'native'],
  ])('signs in a container from the image %s, on %s', async (image, runtime) => {
    const { person, container, name } = await personWithContainer(docker, { image });
    const up = await person.json<Up>('up', name, '--runtime', runtime);
    expect(up).toMatchObject({ target: name, id: container.id, runtime });
    const path = (await container.execOk(['gpgconf', '--list-dirs', 'agent-socket'])).trim();
    expect(up.sockets).toEqual([{ type: 'gpg-agent', path }]);
    expect(await container.execOk(['stat', '-c', '%a %F', path])).toBe('600 socket\n');
    expect(await signInside(container)).toMatch(/GOODSIG .*Ada Test.*TRUST_ULTIMATE/s);
    expect(await person.ok('log', name)).toMatch(/signed with Ada Test \S+ \S+: ok/);
    await person.ok('down', name);
    expect((await container.exec(['ls', path])).status).not.toBe(0);
    expect(await processesInside(container, '*perl*|*node*|gpg*')).toEqual([]);
    // Nothing is left but the keys, and what gpg itself keeps beside them.
    const changed = (await docker.runOk(['diff', container.id])).match(/(?<=^[AC] ).*/gm) ?? [];
    const kept = ['', '/pubring.kbx', '/pubring.kbx~', '/random_seed', '/trustdb.gpg'];
    expect(changed.filter((file) => file !== '/tmp').sort()).toEqual([
      '/root',
      ...kept.map((file) => `/root/.gnupg${file}`),
    ]);
  });

  it('signs a commit, and decrypts', async () => {
    const { person, container, name } = await personWithContainer(docker);
    await person.home.addEncryptionKey(person.fingerprint);
    await person.ok('up', name);
    await container.execOk([
      'sh',
      '-c',
      `cd && git init -q r && cd r && git -c user.name=A -c user.email=ada@example.org -c user.signingkey=${person.fingerprint} commit -q --allow-empty -S -m x && git verify-commit HEAD`,
    ]);
    const secret = await container.execOk([
      'sh',
      '-c',
      'echo the secret | gpg --batch -r ada@example.org --encrypt | gpg --batch --decrypt',
    ]);
    expect(secret).toBe('the secret\n');
  });

  it('says what is missing where nothing can run its end, status 5', async () => {
    const { person, container, name } = await personWithContainer(docker, { image: 'none' });
    await container.execOk(['sh', '-c', 'printf "#!/bin/sh\necho Linux mips" >/usr/bin/uname']);
    const done = await person.run(['up', name]);
    expect(done.stderr).toMatch(
      new RegExp(
        `^gpg-bridge: nothing in ${name} can run the bridge's end: .*Perl.*Node.*mips\\. Install one.*\\n$`,
      ),
    );
    expect(done.status).toBe(5);
    expect(await person.json('status')).toEqual([]);
  });

  it('says which runtime is missing when it was asked for', async () => {
    const { person, name } = await personWithContainer(docker, { image: 'plain' });
    const done = await person.run(['up', name, '--runtime=node']);
    expect(done).toMatchObject({ status: 5, stderr: expect.stringContaining('it has no usable node') });
  });

  it('is one bridge by name, short and full ID', async () => {
    const { person, container, name } = await personWithContainer(docker, { image: 'plain' });
    const names = [name, `docker:${name}`, container.id, container.id.slice(0, 12)];
    const { pid } = await person.json<Up>('up', names[0]!);
    for (const one of names) {
      expect(await person.json<Up>('up', one), one).toMatchObject({ pid, target: name, id: container.id });
      expect(await person.json('status', one), one).toMatchObject([{ pid }]);
    }
    expect(await person.json('status')).toHaveLength(1);
    expect(await person.ok('down', container.id.slice(0, 12))).toContain('is down');
  });

  it('is to whatever has the name now', async () => {
    const { person, container, name } = await personWithContainer(docker, { image: 'plain' });
    const { pid } = await person.json<Up>('up', name);
    await docker.runOk(['rename', container.id, `${name}-old`]);
    const successor = await docker.startContainer({ image: 'plain', name });
    onTestFinished(() => successor.remove());
    const up = await person.json<Up>('up', name);
    expect(up).toMatchObject({ id: successor.id });
    expect(up.pid).not.toBe(pid);
    expect(await person.json('up', `${name}-old`)).toMatchObject({ id: container.id, pid });
  });

  it.each([
    ['not there', ['rm', '-f'], 'not found'],
    ['stopped', ['stop'], 'is not running'],
    ['paused', ['pause'], 'is not running'],
  ])('says that a container is %s, status 3', async (_state, command, expected) => {
    const { person, container, name } = await personWithContainer(docker, { image: 'plain' });
    await docker.runOk([...command, container.id]);
    const done = await person.run(['up', name]);
    expect(done.stderr).toMatch(new RegExp(`^gpg-bridge: docker container .* ${expected}: .*\\. .*\n$`));
    expect(done.status).toBe(3);
  });

  it('asks whether a container with nearly this name is meant', async () => {
    const { person, name } = await personWithContainer(docker, { image: 'plain' });
    const done = await person.run(['up', `${name.slice(0, -2)}${name.at(-1)}${name.at(-2)}z`]);
    expect(done).toMatchObject({ status: 3, stderr: expect.stringContaining(`Did you mean ${name}?`) });
  });

  it('says that there is no such user', async () => {
    const { person, name } = await personWithContainer(docker, { image: 'plain' });
    const done = await person.run(['up', name, '--user=nobody-of-this-name']);
    expect(done.stderr).toMatch(/^gpg-bridge: .*nobody-of-this-name.*\n$/);
    expect(done.status).toBe(1);
  });

  describe('for a user of the container', () => {
    it('given with --user', async () => {
      const { person, container, name } = await personWithContainer(docker);
      const up = await person.json<Up>('up', name, '--user=dev');
      expect(up.sockets).toEqual([{ type: 'gpg-agent', path: '/home/dev/.gnupg/S.gpg-agent' }]);
      expect(await container.execOk(['stat', '-c', '%U %a', '/home/dev/.gnupg', up.sockets[0]!.path])).toBe(
        'dev 700\ndev 600\n',
      );
      expect(await signInside(container, 'ada@example.org', { user: 'dev' })).toContain('GOODSIG');
      // Somebody else's bridge is another one.
      expect((await person.run(['status', name])).status).toBe(3);
      await person.ok('up', name);
      expect(await person.json('status')).toHaveLength(2);
      expect(await signInside(container)).toContain('GOODSIG');
      expect(await person.ok('down', name, '--user=dev')).toContain('is down');
      expect(await person.json('status')).toHaveLength(1);
    });

    it('that is its own', async () => {
      const { person, container, name } = await personWithContainer(docker, { user: 'dev' });
      const up = await person.json<Up>('up', name);
      expect(up.sockets[0]?.path).toBe('/home/dev/.gnupg/S.gpg-agent');
      expect(await signInside(container)).toContain('GOODSIG');
    });

    it('with a home that is elsewhere', async () => {
      const { person, container, name } = await personWithContainer(docker);
      await container.execOk(['useradd', '--create-home', '--home-dir', '/srv/a place', 'eve']);
      const up = await person.json<Up>('up', name, '--user=eve');
      expect(up.sockets[0]?.path).toBe('/srv/a place/.gnupg/S.gpg-agent');
      expect(await signInside(container, 'ada@example.org', { user: 'eve' })).toContain('GOODSIG');
    });

    it('with a runtime directory', async () => {
      const { person, container, name } = await personWithContainer(docker);
      await container.execOk(['install', '-d', '-m', '700', '-o', 'dev', '/run/user/1000']);
      const up = await person.json<Up>('up', name, '--user=dev');
      expect(up.sockets[0]?.path).toBe('/run/user/1000/gnupg/S.gpg-agent');
      expect(await container.execOk(['stat', '-c', '%U %a', '/run/user/1000/gnupg'])).toBe('dev 700\n');
      expect(await signInside(container, 'ada@example.org', { user: 'dev' })).toContain('GOODSIG');
    });

    it('with GNUPGHOME set', async () => {
      const { person, container, name } = await personWithContainer(docker, {
        env: { GNUPGHOME: '/opt/keys' },
      });
      await container.execOk(['install', '-d', '-m', '700', '/opt/keys']);
      const up = await person.json<Up>('up', name);
      const path = (await container.execOk(['gpgconf', '--list-dirs', 'agent-socket'])).trim();
      expect(up.sockets[0]?.path).toBe(path);
      expect(await signInside(container)).toContain('GOODSIG');
    });
  });

  it('reaches an engine that only its command reaches', async () => {
    const { person, container, name } = await personWithContainer(docker);
    // A remote engine: the same one behind a TCP port, which is left to the docker command.
    const relay = createServer((socket) => {
      const engine = connect(docker.socketPath);
      socket.pipe(engine).pipe(socket);
      for (const [side, other] of [
        [socket, engine],
        [engine, socket],
      ] as const)
        side.on('error', () => {}).on('close', () => other.destroy());
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    onTestFinished(() => void relay.close());
    person.env.DOCKER_HOST = `tcp://127.0.0.1:${(relay.address() as AddressInfo).port}`;
    await person.ok('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
    await docker.runOk(['kill', container.id]);
    await person.settled();
    expect(await person.json('status')).toEqual([]);
  });

  it('honours a context', async () => {
    const { person, container, name } = await personWithContainer(docker);
    const config = await tempDir();
    const meta = join(config, 'contexts/meta', createHash('sha256').update('mine').digest('hex'));
    await mkdir(meta, { recursive: true });
    await writeFile(
      join(meta, 'meta.json'),
      JSON.stringify({ Name: 'mine', Endpoints: { docker: { Host: `unix://${docker.socketPath}` } } }),
    );
    person.env = { ...person.env, DOCKER_CONFIG: config };
    delete person.env.DOCKER_HOST;
    await writeFile(join(config, 'config.json'), JSON.stringify({ currentContext: 'mine' }));
    await person.ok('up', name);
    expect(await signInside(container)).toContain('GOODSIG');
  });

  it('brings a keyring of 5,000 keys over whole', { timeout: 600_000 }, async () => {
    const { person, container, name } = await personWithContainer(
      docker,
      { image: 'plain' },
      { pubring: await largeKeyring() },
    );
    await person.ok('up', name, '--keys=all');
    // What does not fit in the first frame follows while the bridge is up already.
    const log = person.start(['log', name, '-f']);
    const received = (text: string) =>
      [...text.matchAll(/imported public keys: (\d+) received/g)].reduce(
        (sum, [, count]) => sum + Number(count),
        0,
      );
    await log.printed((text) => received(text) >= LARGE_KEYRING_KEYS + 1);
    const listed = await container.execOk(['gpg', '--batch', '--with-colons', '--list-keys']);
    expect(listed.match(/^pub:/gm)).toHaveLength(LARGE_KEYRING_KEYS + 1);
    expect(listed.match(/^uid:/gm)).toHaveLength(2 * LARGE_KEYRING_KEYS + 1);
    expect(await signInside(container)).toMatch(/GOODSIG.*TRUST_ULTIMATE/s);
  });
});

requireSystem('podman')('gpg-bridge with a Podman container', () => {
  it('signs, and knows its container by every name', async () => {
    const podman = await sharedEngine('podman');
    const { person, container, name } = await personWithContainer(podman);
    const up = await person.json<Up>('up', name);
    expect(up).toMatchObject({ target: name, id: container.id });
    expect(await signInside(container)).toContain('GOODSIG');
    expect(await person.json('status', `podman:${container.id.slice(0, 12)}`)).toMatchObject([
      { pid: up.pid },
    ]);
    await person.ok('down', name);
    expect((await container.exec(['ls', up.sockets[0]!.path])).status).not.toBe(0);
  });

  it('ends with its container', async () => {
    const podman = await sharedEngine('podman');
    const { person, container, name } = await personWithContainer(podman, { image: 'plain' });
    await person.ok('up', name);
    await podman.runOk(['kill', container.id]);
    await person.settled();
    expect(await person.json('status')).toEqual([]);
    const done = await person.run(['up', name]);
    expect(done.status).toBe(3);
    await podman.runOk(['start', container.id]);
    await person.ok('up', name);
  });
});
