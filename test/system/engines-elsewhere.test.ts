import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { signInside, type Up } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import type { Container, ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { NewerEngine, type NewerEngineName } from '@gpg-bridge/test-support/engine/newer-engine';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { writeScript } from '@gpg-bridge/test-support/script';
import { SSH_HOST, SshServer } from '@gpg-bridge/test-support/sshd';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { testedWith } from '@gpg-bridge/test-support/tested-with';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

/** Signs inside over a bridge, and checks that it ends with the container and leaves nothing. */
async function signsAndEnds(person: Person, engine: ContainerEngine, container: Container): Promise<void> {
  const prefix = engine.address.program === 'podman' ? 'podman:' : '';
  const name = `${prefix}${container.name}`;
  const up = await person.json<Up>('up', name);
  expect(up).toMatchObject({ target: name, id: container.id });
  expect(await signInside(container)).toContain('GOODSIG');
  expect(await person.json('status', name)).toMatchObject([{ pid: up.pid, state: 'ready' }]);
  const inside = await person.run(['exec', name, '--', 'sh', '-c', 'cat; exit 7'], { input: 'through' });
  expect([inside.stdout.toString(), inside.status]).toEqual(['through', 7]);
  await person.ok('down', name);
  expect((await container.exec(['ls', up.sockets[0]!.path])).status).not.toBe(0);
  await person.ok('up', name);
  await engine.runOk(['kill', container.id]);
  await person.settled();
  expect(await person.json('status')).toEqual([]);
}

/** A person with an engine's container, and variables of their own instead of the engine's. */
async function personAt(engine: ContainerEngine, env: NodeJS.ProcessEnv, container: Container) {
  onTestFinished(() => container.remove());
  const { DOCKER_HOST: _host, CONTAINER_HOST: _containers, DOCKER_CONFIG: _config, ...rest } = engine.env;
  return Person.create({ env: { ...rest, ...env } });
}

/** Where each engine of Debian 13 is found by who started it. */
const FOUND_BY: Readonly<Record<NewerEngineName, (engine: NewerEngine) => Promise<NodeJS.ProcessEnv>>> = {
  docker: async ({ socketPath }) => ({ DOCKER_HOST: `unix://${socketPath}` }),
  // Its setup makes a context of this name.
  'rootless docker': async ({ socketPath }) => {
    const DOCKER_CONFIG = await tempDir();
    const host = `host=unix://${socketPath}`;
    const env = { PATH: process.env.PATH, HOME: DOCKER_CONFIG, DOCKER_CONFIG };
    await runOk('docker', ['context', 'create', 'rootless', '--docker', host], { env });
    await runOk('docker', ['context', 'use', 'rootless'], { env });
    return { DOCKER_CONFIG };
  },
  'rootless podman': async ({ dir }) => ({ XDG_RUNTIME_DIR: dir }),
};

requireSystem(
  'docker',
  'podman',
  'native',
  'namespaces',
)('an engine of Debian 13', () => {
  describe.each(Object.keys(FOUND_BY) as NewerEngineName[])('%s', (name) => {
    let engine: NewerEngine;

    beforeAll(async () => {
      engine = await NewerEngine.start(name);
    }, SETUP_MS);

    afterAll(() => engine?.stop());

    it('signs, and its bridge ends with the container', async () => {
      const container = await engine.startContainer({ image: 'busybox' });
      await signsAndEnds(await personAt(engine, await FOUND_BY[name](engine), container), engine, container);
    });
  });
});

/** Programs of these names that add words of their own, first on the PATH. */
async function wrapped(person: Person, programs: Readonly<Record<string, string>>): Promise<void> {
  const dir = await tempDir();
  for (const [name, script] of Object.entries(programs)) await writeScript(dir, name, script);
  person.env.PATH = `${dir}${delimiter}${person.env.PATH}`;
}

requireSystem('docker', 'sshd')('a Docker engine behind ssh', () => {
  it.each(['DOCKER_HOST', 'a context'])('signs, named by %s', async (how) => {
    const engine = await sharedEngine('docker');
    const { DOCKER_HOST, PATH } = engine.env;
    const server = await SshServer.start({ env: { DOCKER_HOST: DOCKER_HOST!, PATH: PATH! } });
    onTestFinished(() => server.stop());
    const host = `ssh://${SSH_HOST}`;
    const config = await tempDir();
    const env: NodeJS.ProcessEnv = { DOCKER_CONFIG: config };
    if (how === 'DOCKER_HOST') env.DOCKER_HOST = host;
    else {
      const meta = join(config, 'contexts/meta', createHash('sha256').update('far').digest('hex'));
      await mkdir(meta, { recursive: true });
      await writeFile(
        join(meta, 'meta.json'),
        JSON.stringify({ Name: 'far', Endpoints: { docker: { Host: host } } }),
      );
      env.DOCKER_CONTEXT = 'far';
    }
    const container = await engine.startContainer({ image: 'plain' });
    const person = await personAt(engine, env, container);
    await testedWith('docker-ssh', () => engine.version());
    await wrapped(person, { ssh: `exec /usr/bin/ssh -F '${server.configPath}' "$@"` });
    await signsAndEnds(person, engine, container);
  });
});

requireSystem('podman', 'sshd')('Podman as `podman machine` sets it up', () => {
  it('signs over its connection: ssh to a port of this machine, with a key of its own', async () => {
    const engine = await sharedEngine('podman');
    const server = await SshServer.start();
    onTestFinished(() => server.stop());
    const home = await tempDir();
    await mkdir(join(home, '.ssh'), { mode: 0o700 });
    const hostKey = (await runOk('cat', [join(server.dir, 'host-key.pub')])).trim();
    await writeFile(join(home, '.ssh/known_hosts'), `[127.0.0.1]:${server.port} ${hostKey}\n`);
    const uri = `ssh://${userInfo().username}@127.0.0.1:${server.port}${engine.socketPath}`;
    const connection = `uri = "${uri}"\nidentity = "${server.clientKeyPath}"\n`;
    const conf = join(home, 'containers.conf');
    await writeFile(conf, `[engine.service_destinations.podman-machine-default]\n${connection}`);
    const env = { HOME: home, CONTAINERS_CONF: conf, CONTAINER_CONNECTION: 'podman-machine-default' };
    await testedWith('podman-connection', () => engine.version());
    const container = await engine.startContainer({ image: 'plain' });
    await signsAndEnds(await personAt(engine, env, container), engine, container);
  });

  it('signs over the socket that stands for Docker’s', async () => {
    const engine = await sharedEngine('podman');
    const container = await engine.startContainer({ image: 'plain' });
    const person = await personAt(engine, { DOCKER_HOST: `unix://${engine.socketPath}` }, container);
    await testedWith('podman-as-docker', () => engine.version());
    const up = await person.json<Up>('up', container.name);
    expect(up).toMatchObject({ target: container.name, id: container.id });
    expect(await signInside(container)).toContain('GOODSIG');
    await engine.runOk(['kill', container.id]);
    await person.settled();
    expect(await person.json('status')).toEqual([]);
  });
});
