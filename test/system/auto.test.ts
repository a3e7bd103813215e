import { randomBytes } from 'node:crypto';
import { type RuleBridge, saysUp, startAuto, timesUp, type Waiting } from '@gpg-bridge/test-support/auto';
import { signInside } from '@gpg-bridge/test-support/bridged';
import { Person } from '@gpg-bridge/test-support/cli';
import type {
  Container,
  ContainerEngine,
  ContainerOptions,
} from '@gpg-bridge/test-support/engine/containers';
import { DockerEngine } from '@gpg-bridge/test-support/engine/docker';
import { imageTar } from '@gpg-bridge/test-support/engine/images';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

/** How many of a hundred containers there are at a time: each has a bridge's process on this machine. */
const AT_ONCE = 20;

/** Names of one test's containers begin with something of its own: engines are shared. */
const ownPrefix = () => `auto-${randomBytes(4).toString('hex')}`;

async function startContainer(engine: ContainerEngine, options: ContainerOptions): Promise<Container> {
  const container = await engine.startContainer({ image: 'busybox', ...options });
  onTestFinished(() => container.remove());
  return container;
}

describe.each(['docker', 'podman'] as const)('auto run with %s', (kind) => {
  requireSystem(kind)('and its containers', () => {
    let engine: ContainerEngine;
    /** What a target is called before its name. */
    const prefix = kind === 'podman' ? 'podman:' : '';

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    /** A person whose programs find this engine, and none of the other kind. */
    async function personAt(): Promise<Person> {
      const variable = kind === 'podman' ? 'CONTAINER_HOST' : 'DOCKER_HOST';
      const other = kind === 'podman' ? 'DOCKER_HOST' : 'CONTAINER_HOST';
      const env = {
        ...engine.env,
        [variable]: `unix://${engine.socketPath}`,
        [other]: 'unix:///nonexistent/sock',
      };
      return Person.create({ env });
    }

    it('bridges those that run already and those that start later, and shows their rule', async () => {
      const person = await personAt();
      const name = ownPrefix();
      const before = await startContainer(engine, { name: `${name}-before` });
      await person.ok('auto', 'add', `${name}-*`, '--trust', '--no-ssh');
      const auto = await startAuto(person, kind);
      await auto.printed(saysUp(kind, before.name), 'stderr');
      expect(await signInside(before)).toContain('GOODSIG');
      const after = await startContainer(engine, { name: `${name}-after` });
      await startContainer(engine, { name: `other-${name}` });
      await auto.printed(saysUp(kind, after.name), 'stderr');
      expect(await signInside(after)).toContain('GOODSIG');
      const bridges = await person.json<RuleBridge[]>('status');
      expect(bridges.map(({ target, state, rule }) => ({ target, state, rule }))).toEqual([
        { target: `${prefix}${name}-after`, state: 'ready', rule: `${name}-*` },
        { target: `${prefix}${name}-before`, state: 'ready', rule: `${name}-*` },
      ]);
      expect(await person.ok('status', `${prefix}${after.name}`)).toContain(`rule      ${name}-*`);
      // A container that ends is left to its bridge.
      await engine.runOk(['kill', before.id]);
      await expect.poll(() => person.json<RuleBridge[]>('status'), { timeout: 30_000 }).toHaveLength(1);
    });

    it('narrows the bridges that are up when their rule is narrowed, and keeps its other options', async () => {
      const person = await personAt();
      const name = ownPrefix();
      await person.ok('auto', 'add', name, '--trust', '--no-ssh');
      const auto = await startAuto(person, kind);
      const container = await startContainer(engine, { name });
      await auto.printed(saysUp(kind, name), 'stderr');
      expect(await person.ok('auto', 'add', name, '--no-decrypt')).toContain('one bridge');
      const [bridge] = await person.json<{ grant: { decrypt: boolean } }[]>('status');
      expect(bridge!.grant.decrypt).toBe(false);
      await person.ok('down', `${prefix}${container.name}`);
      expect(await person.ok('up', `${prefix}${container.name}`)).toMatch(
        /may sign with every GPG key \(not/,
      );
      const { rules } = await person.json<{ rules: object[] }>('auto', 'list');
      expect(rules).toMatchObject([{ trust: true, options: { ssh: false } }]);
    });

    it('bridges them again when they are restarted, and when they are made again under their name', async () => {
      const person = await personAt();
      const name = ownPrefix();
      await person.ok('auto', 'add', name, '--trust', '--no-ssh');
      const auto = await startAuto(person, kind);
      const container = await startContainer(engine, { name });
      await auto.printed(saysUp(kind, name), 'stderr');
      await engine.runOk(['restart', '--time=0', container.id]);
      await auto.printed(() => timesUp(auto, kind, name) === 2, 'stderr');
      expect(await signInside(container)).toContain('GOODSIG');
      await container.remove();
      const again = await startContainer(engine, { name });
      await auto.printed(() => timesUp(auto, kind, name) === 3, 'stderr');
      expect(await signInside(again)).toContain('GOODSIG');
      // The bridge of the one that was removed may be ending.
      await expect
        .poll(() => person.json<RuleBridge[]>('status'), { timeout: 30_000 })
        .toMatchObject([{ id: again.id, state: 'ready', rule: name }]);
    });

    it('takes no label that came with an image, and asks about a new image once', async () => {
      const person = await personAt();
      const name = ownPrefix();
      const label = `example.${name}`;
      const image = `localhost/${name}:1`;
      const plain = await engine.ensureImage('busybox');
      await engine.runOk(['import', '--change', `LABEL ${label}=yes`, await imageTar('busybox'), image]);
      onTestFinished(async () => void (await engine.run(['rmi', '--force', image])));
      await person.ok('auto', 'add', '--label', `${label}=yes`, '--no-ssh');
      const auto = await startAuto(person, kind);
      const run = (id: string, from: string, ...args: string[]) =>
        engine.runOk([
          'run',
          '-d',
          '--network=none',
          `--name=${id}`,
          ...engine.address.runArgs,
          ...args,
          from,
          'sleep',
          'infinity',
        ]);
      const remove = (id: string) =>
        onTestFinished(async () => {
          await engine.run(['kill', id]); // Podman's `rm` would wait for a process that takes no SIGTERM
          await engine.run(['rm', '--force', id]);
        });
      remove(`${name}-invited`);
      await run(`${name}-invited`, image);
      remove(`${name}-own`);
      await run(`${name}-own`, plain, `--label=${label}=yes`);
      // Both were looked at, the first one first.
      await auto.printed(new RegExp(`${kind}:${name}-own waits: its image is new`), 'stderr');
      expect(auto.stderr).not.toContain('-invited');
      expect(await person.json<RuleBridge[]>('status')).toEqual([]);
      expect(await person.ok('auto', 'approve')).toContain(`${prefix}${name}-own`);
      const { approved } = await person.json<{ approved: Waiting[] }>(
        'auto',
        'approve',
        `${prefix}${name}-own`,
      );
      expect(approved).toMatchObject([{ rule: `--label ${label}=yes`, container: `${name}-own` }]);
      await auto.printed(saysUp(kind, `${name}-own`), 'stderr');
      // The image is known now, and the same label on another container of it is enough.
      remove(`${name}-second`);
      await run(`${name}-second`, plain, `--label=${label}=yes`);
      await auto.printed(saysUp(kind, `${name}-second`), 'stderr');
      expect(await person.ok('auto', 'approve')).toBe('Nothing waits for you.\n');
      expect(auto.stderr).not.toContain('-invited');
    });
  });
});

requireSystem('docker')('auto run', () => {
  it('goes on when the engine has been away, and says so', async () => {
    const engine = await DockerEngine.start();
    onTestFinished(() => engine.stop());
    const person = await Person.create({
      env: { ...engine.env, CONTAINER_HOST: 'unix:///nonexistent/sock' },
    });
    await person.ok('auto', 'add', '*', '--trust', '--no-ssh');
    const container = await engine.startContainer({ name: 'box', image: 'busybox' });
    const auto = await startAuto(person, 'docker');
    await auto.printed(saysUp('docker', 'box'), 'stderr');
    await engine.stopDaemon();
    await auto.printed(
      /docker .*looked for again in 0\.5 s[\s\S]*looked for again in 1 s[\s\S]*looked for again in 2 s/,
      'stderr',
    );
    await engine.startDaemon();
    await auto.printed((text) => text.split('watching docker at').length === 3, 'stderr');
    await engine.runOk(['start', container.id]);
    await auto.printed(() => timesUp(auto, 'docker', 'box') === 2, 'stderr');
    expect(await signInside(container)).toContain('GOODSIG');
    // One is enough.
    const second = await person.run(['auto', 'run']);
    expect(second.status).toBe(1);
    expect(second.stderr).toContain(`PID ${auto.child.pid}`);
  });

  it('bridges a hundred that start within a minute or so, a few at a time', async () => {
    const engine = await sharedEngine('docker');
    const person = await Person.create({
      env: { ...engine.env, CONTAINER_HOST: 'unix:///nonexistent/sock' },
    });
    const name = ownPrefix();
    await person.ok('auto', 'add', `${name}-*`, '--trust', '--no-ssh', '--keys', 'none');
    const auto = await startAuto(person, 'docker');
    const containers: Container[] = [];
    for (let i = 0; i < AT_ONCE; i++) containers.push(await startContainer(engine, { name: `${name}-${i}` }));
    const ids = containers.map(({ id }) => id);
    for (let started = AT_ONCE; ; started += AT_ONCE) {
      await auto.printed(() => timesUp(auto, 'docker', `${name}-\\d+`) === started, 'stderr');
      if (started === 100) break;
      await engine.runOk(['kill', ...ids]);
      await person.settled();
      await engine.runOk(['start', ...ids]);
    }
    const bridges = await person.json<RuleBridge[]>('status');
    expect(bridges.map(({ state }) => state)).toEqual(ids.map(() => 'ready'));
  }, 600_000);
});

requireSystem('podman')('auto run without a service of Podman', () => {
  it('reads the events of the podman command', async () => {
    const engine = await sharedEngine('podman');
    const { XDG_RUNTIME_DIR: _runtime, CONTAINER_HOST: _host, ...env } = engine.env;
    const person = await Person.create({ env: { ...env, DOCKER_HOST: 'unix:///nonexistent/sock' } });
    const name = ownPrefix();
    await person.ok('auto', 'add', `podman:${name}`, '--trust', '--no-ssh');
    const auto = await startAuto(person, 'podman');
    const container = await startContainer(engine, { name });
    await auto.printed(saysUp('podman', name), 'stderr');
    expect(await signInside(container)).toContain('GOODSIG');
  });
});
