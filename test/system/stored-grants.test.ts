import { personWithContainer, signInside } from '@gpg-bridge/test-support/bridged';
import type { ContainerEngine } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { PATIENT, SETUP_MS } from '@gpg-bridge/test-support/patient';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

interface Status {
  user: string;
  options: { gpgKeys?: string[]; allowPassphrase?: boolean; confirm?: boolean };
}

describe.each(['docker', 'podman'] as const)('%s', (kind) => {
  requireSystem(kind)('the restrictions of a container', () => {
    let engine: ContainerEngine;

    beforeAll(async () => {
      engine = await sharedEngine(kind);
    }, SETUP_MS);

    /** A person with two keys, of which a container may use one. */
    async function restricted(...options: string[]) {
      const { person, container, name } = await personWithContainer(engine);
      await person.home.createKey('Bob Test <bob@example.org>');
      await person.ok('up', name, '--gpg-key', 'ada@example.org', ...options);
      const statuses = () => person.json<Status[]>('status');
      return { person, container, name, statuses };
    }

    it('hold when it was restarted, for whoever brings the bridge up', async () => {
      const { person, container, name } = await restricted();
      await engine.runOk(['restart', '-t', '0', container.name]);
      await person.settled();
      expect((await person.run(['exec', name, '--', 'true'])).status).toBe(0);
      expect(await signInside(container)).toContain('GOODSIG');
      await expect(signInside(container, 'bob@example.org')).rejects.toThrow(/No secret key/);
    });

    it('hold for one that was made again under its name, and extensions do not', async () => {
      const { person, container, name, statuses } = await restricted('--allow-passphrase');
      await container.remove();
      await person.settled();
      const again = await engine.startContainer({ name: container.name });
      onTestFinished(() => again.remove());
      expect(await person.ok('up', name)).toContain('restrictions that were given before hold: --gpg-key');
      await expect(signInside(again, 'bob@example.org')).rejects.toThrow(/No secret key/);
      const [{ options }] = (await statuses()) as [Status];
      expect(options.gpgKeys).toEqual(['ada@example.org']);
      expect(options.allowPassphrase).toBeUndefined();
    });

    it('are followed with --restart to one that was made again, without the extensions', async () => {
      const { person, container, name, statuses } = await restricted('--allow-passphrase', '--restart');
      const log = person.start(['log', name, '-f']);
      await log.printed(/bridged /);
      await container.remove();
      await log.printed(/waiting for /);
      const again = await engine.startContainer({ name: container.name });
      onTestFinished(() => again.remove());
      await log.printed(/is another one now: .*bridged /s);
      const [{ options }] = (await statuses()) as [Status];
      expect(options.gpgKeys).toEqual(['ada@example.org']);
      expect(options.allowPassphrase).toBeUndefined();
    });

    it('hold for every user, also one whose bridge is up already, unless that one was given others', async () => {
      const { person, container, name, statuses } = await restricted();
      await person.ok('up', name, '--user', 'dev');
      await expect(signInside(container, 'bob@example.org', { user: 'dev' })).rejects.toThrow(
        /No secret key/,
      );
      await person.ok('up', name, '--user', 'dev', '--gpg-key', 'bob@example.org');
      expect(await signInside(container, 'bob@example.org', { user: 'dev' })).toContain('GOODSIG');
      const before = (await statuses()).find(({ user }) => user === '1000')!;
      expect(before.options).toMatchObject({ gpgKeys: ['bob@example.org'] });
      await person.ok('up', name, '--confirm');
      await expect
        .poll(async () => (await statuses()).map(({ options }) => options.confirm), PATIENT)
        .toEqual([true, true]);
    });

    it('hold for a user whose number the target has changed', async () => {
      const { person, container, name } = await personWithContainer(engine);
      await person.home.createKey('Bob Test <bob@example.org>');
      await person.ok('up', name, '--user', 'dev', '--gpg-key', 'ada@example.org');
      await person.ok('down', name, '--user', 'dev');
      const move = "sed -i 's/^dev:x:1000:/dev:x:0:/' /etc/passwd";
      await engine.runOk(['exec', '-u', '0', container.name, 'sh', '-c', move]);
      await person.ok('up', name, '--user', 'dev');
      const [{ options }] = (await person.json<Status[]>('status')) as [Status];
      expect(options.gpgKeys).toEqual(['ada@example.org']);
    });

    it('are forgotten by name when it has gone', async () => {
      const { person, container, name } = await restricted();
      await container.remove();
      await person.settled();
      expect(await person.ok('down', name, '--forget')).toContain('Its restrictions are dropped');
      const again = await engine.startContainer({ name: container.name });
      onTestFinished(() => again.remove());
      await person.ok('up', name);
      expect(await signInside(again, 'bob@example.org')).toContain('GOODSIG');
    });
  });
});
