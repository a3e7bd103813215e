import { personWithContainer, signInside, type Up } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

describe.each(['docker', 'podman'] as const)('%s', (kind) => {
  requireSystem(kind)('one container, one bridge', () => {
    let engine: ContainerEngine;

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    it('for a user by each of its names', async () => {
      const { person, container, name } = await personWithContainer(engine);
      const root = await person.json<Up>('up', name);
      for (const user of ['root', '0', 'root:root', '0:0']) {
        expect(await person.json('up', name, '--user', user)).toMatchObject({ pid: root.pid });
        expect(await person.json('status', name, '--user', user)).toMatchObject([{ pid: root.pid }]);
      }
      const dev = await person.json<Up>('up', name, '--user', 'dev');
      expect(dev.pid).not.toBe(root.pid);
      for (const user of ['1000', 'dev:dev', '1000:1000']) {
        expect(await person.json('up', name, '--user', user)).toMatchObject({ pid: dev.pid });
      }
      expect(await person.json('status')).toHaveLength(2);
      expect(await signInside(container, 'ada@example.org', { user: 'dev' })).toContain('GOODSIG');

      // Each user's bridge is named, with words that can be pasted.
      expect(await person.ok('status', name)).toContain(
        `There is also one for the user dev: gpg-bridge status ${name} --user dev\n`,
      );
      const down = await person.ok('down', name);
      expect(down).toBe(
        `The bridge to ${name} is down.\nThere is one for the user dev: gpg-bridge down ${name} --user dev\n`,
      );
      expect(await person.json('status')).toMatchObject([{ pid: dev.pid }]);
      expect(await person.ok('down', name)).toContain('There was no bridge');
      expect((await person.run(['keys', 'sync', name])).stderr).toContain(
        `Did you mean \`${name} --user dev\`?`,
      );
      expect(await person.json('status')).toMatchObject([{ pid: dev.pid }]);
      expect(await person.ok('down', name, '--user', '1000')).toContain('is down');
    });

    it('not for a user who is not there, and says so in one line', async () => {
      const { person, name } = await personWithContainer(engine);
      const { status, stderr } = await person.run(['up', name, '--user', 'nobody-here']);
      expect(status).toBe(1);
      expect(stderr).toMatch(
        /^gpg-bridge: can't run a command in .*nobody-here.*[^\\rn]\. See whether .*\n$/,
      );
    });

    it("for the container's own user and the same one by name", async () => {
      const { person, name } = await personWithContainer(engine, { user: 'dev' });
      const said = await person.ok('up', name, '--user', '1000');
      expect(said).toContain(`gpg-bridge down ${name} --user 1000`);
      const [own] = await person.json<Up[]>('status', name);
      expect(own).toBeDefined();
      expect(await person.json('up', name)).toMatchObject({ pid: own!.pid });
      expect(await person.ok('down', name)).toBe(`The bridge to ${name} is down.\n`);
    });

    it('beside which another one on the same home says whose that is', async () => {
      const volume = `gb-home-${process.pid}-${kind}`;
      const args = [`--volume=${volume}:/home/dev`];
      const { person, container, name } = await personWithContainer(engine, { user: 'dev', args });
      const second = await engine.startContainer({ user: 'dev', args });
      onTestFinished(async () => {
        for (const each of [container, second]) await each.remove();
        await engine.runOk(['volume', 'rm', volume]);
      });
      const { pid } = await person.json<Up>('up', name);
      const other = name.replace(container.name, second.name);
      const refused = await person.run(['up', other]);
      expect(refused.status).toBe(1);
      expect(refused.stderr).toContain(
        `the bridge to ${name} (pid ${pid}) listens there, so both have the same home`,
      );
      expect(await signInside(second)).toContain('GOODSIG');
      // The first one is told the same once it has lost its place: no process of the other container is seen there.
      const taken = await person.json<Up>('up', other, '--takeover');
      const holder = `the bridge to ${other} (pid ${taken.pid})`;
      const status = await person.run(['status', name]);
      expect(status.status).toBe(1);
      expect(status.stdout.toString()).toContain(`${holder} listens there`);
      expect((await person.run(['up', name])).stderr).toContain(`${holder} listens there`);
      expect(await person.ok('up', name, '--takeover')).toContain(`over from ${holder}`);
    });

    it('that is not meant by its name in another engine', async () => {
      const { person, container, name } = await personWithContainer(engine);
      const { pid } = await person.json<Up>('up', name);
      const elsewhere = { DOCKER_HOST: 'unix:///nowhere/d.sock', CONTAINER_HOST: 'unix:///nowhere/p.sock' };
      for (const spec of [name, name.replace(container.name, container.id)]) {
        const down = await person.run(['down', spec], { env: elsewhere });
        expect(down.stdout.toString()).toBe(`There was no bridge to ${spec}.\n`);
      }
      expect(await person.json('status')).toMatchObject([{ pid }]);
    });

    it('that follows a name to the container that has it now', async () => {
      const { person, container, name } = await personWithContainer(engine);
      const { pid, id } = await person.json<Up>('up', name, '--restart');
      const log = person.start(['log', name, '-f']);
      await log.printed(/bridged /);
      await container.remove();
      await log.printed(/waiting for /);
      const again = await engine.startContainer({ name: container.name });
      onTestFinished(() => again.remove());
      // However early it comes, it starts no other one beside the one that is on its way.
      expect(await person.json('up', name, '--restart')).toMatchObject({ pid, id: again.id });
      await log.printed(/is another one now: \w+, no longer \w+.*bridged /s);
      expect(log.stdout).toContain(`is another one now: ${again.id}, no longer ${id}`);
      expect(await signInside(again)).toContain('GOODSIG');
      expect(await person.json('up', name, '--restart')).toMatchObject({ pid, id: again.id });
      const byShortId = name.replace(container.name, again.id.slice(0, 12));
      expect(await person.json('status', byShortId)).toMatchObject([{ pid }]);
      expect((await person.files()).map((file) => file.replace(/.*\./, '')).sort()).toEqual([
        'log',
        'pid',
        'sock',
        'uses',
      ]);
      expect(await person.ok('down', name)).toContain('is down');
    });

    it('that follows an ID nowhere else', async () => {
      const { person, container, name } = await personWithContainer(engine);
      await person.ok('up', name.replace(container.name, container.id), '--restart');
      await container.remove();
      const again = await engine.startContainer({ name: container.name });
      onTestFinished(() => again.remove());
      await person.settled();
      expect(await person.json('status')).toEqual([]);
    });

    it('that can be ended while nobody has its name', async () => {
      const { person, container, name } = await personWithContainer(engine);
      await person.ok('up', name, '--restart');
      const log = person.start(['log', name, '-f']);
      await container.remove();
      await log.printed(/waiting for /);
      expect(await person.ok('down', name)).toContain('is down');
      expect(await person.json('status')).toEqual([]);
    });
  });
});

requireSystem('docker')('a user whom the container does not know', () => {
  it('gets a home with --home, and the exports to use it', async () => {
    const engine = await sharedEngine('docker');
    const { person, container, name } = await personWithContainer(engine);
    const words = [name, '--user', '4321', '--no-ssh'];
    const refused = await person.run(['up', ...words]);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/^gpg-bridge: [^\n]*Or give that user a place with --home DIR\.\n$/);

    const home = '/tmp/home of 4321';
    const said = await person.ok('up', ...words, '--home', home);
    expect(said).toContain(`  export GNUPGHOME='${home}/.gnupg'\n`);
    expect(said).toContain(`docker exec -it -u 4321 ${container.name} sh`);
    const exports = await person.ok('env', name, '--user', '4321');
    expect(exports).toContain(`export GNUPGHOME='${home}/.gnupg'\n`);
    const sign = 'echo hello | gpg --batch --clear-sign | gpg --batch --status-fd 1 --verify';
    const signed = await container.execOk(['sh', '-c', `${exports}\n${sign}`], { user: '4321' });
    expect(signed).toContain(`VALIDSIG ${person.fingerprint}`);
    await container.execOk(['sh', '-c', `[ "$(stat -c %a '${home}/.gnupg')" = 700 ]`]);
  });
});
