import { dirname, join } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { countedHomes } from '@gpg-bridge/test-support/counted-homes';
import { CrossingRelay } from '@gpg-bridge/test-support/crossing-relay';
import type { Container } from '@gpg-bridge/test-support/engine/containers';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { runOk } from '@gpg-bridge/test-support/process';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it, onTestFinished } from 'vitest';

type Version = '2.2' | '2.4';

/** How often a client waits for the host: the first time after `up`, and later. */
type Crossings = readonly [first: number, later: number];

/** What a client does. */
const SCRIPTS = {
  sign: 'echo x | gpg --batch --clear-sign',
  signAs: 'echo x | gpg --batch -u ada@example.org --clear-sign',
  decrypt: 'gpg --batch --decrypt /tmp/secret',
} as const;

/** GnuPG of the client and of the agent, and what each of them makes it cross. */
const TABLE: readonly {
  client: Version;
  agent: Version;
  crossings: Record<keyof typeof SCRIPTS, Crossings>;
}[] = [
  { client: '2.2', agent: '2.2', crossings: { sign: [2, 2], signAs: [2, 2], decrypt: [4, 3] } },
  { client: '2.2', agent: '2.4', crossings: { sign: [3, 2], signAs: [2, 2], decrypt: [4, 3] } },
  { client: '2.4', agent: '2.2', crossings: { sign: [2, 2], signAs: [2, 2], decrypt: [3, 3] } },
  { client: '2.4', agent: '2.4', crossings: { sign: [3, 2], signAs: [2, 2], decrypt: [4, 3] } },
];

const KEYS = { ECC: ['ed25519', 'cv25519'], RSA: ['rsa2048', 'rsa2048'] } as const;

/** Each starts bridges, agents and containers several times, one after the other. */
const PATIENCE_MS = 600_000;

/** Somebody with one key, and an agent of this version. */
async function host(agent: Version, [sign, encrypt]: readonly [string, string]): Promise<Person> {
  const person = await Person.create({ key: false });
  const { home } = person;
  const key = await home.createKey('Ada Test <ada@example.org>', { algo: sign, usage: 'sign' });
  await home.addEncryptionKey(key, encrypt);
  if (agent === '2.4') await useAgent24(home);
  return person;
}

/** Has the agent of a home run in a container, where it is of GnuPG 2.4. */
async function useAgent24(home: GnupgHome): Promise<void> {
  await home.killAgent();
  const container = await start24([home]);
  await container.execOk(['gpg-agent', '--daemon'], { env: { GNUPGHOME: home.dir } });
}

/** A container with GnuPG 2.4 that has these homes at their own paths. */
async function start24(homes: readonly GnupgHome[]): Promise<Container> {
  const docker = await sharedEngine('docker');
  const args = homes.map(({ dir }) => `--volume=${dirname(dir)}:${dirname(dir)}`);
  const container = await docker.startContainer({ image: 'trixie', args });
  onTestFinished(() => container.remove());
  return container;
}

requireSystem('docker')('crossings between versions of GnuPG', () => {
  describe.each(Object.entries(KEYS))('with an %s key', (_algorithm, algorithms) => {
    it.each(TABLE)(
      'a $client client of a $agent agent',
      async ({ client, agent, crossings }) => {
        const docker = await sharedEngine('docker');
        const person = await host(agent, algorithms);
        const container = await docker.startContainer({ image: client === '2.4' ? 'trixie' : 'git' });
        onTestFinished(() => container.remove());
        const relay = await CrossingRelay.create(
          `DOCKER_HOST=${docker.env.DOCKER_HOST} docker exec -i ${container.name}`,
        );
        const count = async (script: string) => {
          await container.execOk(['sh', '-c', script]);
          return (await relay.ended()).at(-1)!.crossings;
        };
        const found: Record<string, Crossings> = {};
        for (const [name, script] of Object.entries(SCRIPTS)) {
          await person.ok('up', '--exec', relay.enter, '--no-ssh');
          if (name === 'decrypt') {
            const encrypt = 'echo secret | gpg --batch -r ada@example.org --encrypt > /tmp/secret';
            await container.execOk(['sh', '-c', encrypt]);
          }
          found[name] = [await count(script), await count(script)];
          await person.ok('down', '--exec', relay.enter);
        }
        expect(found).toEqual(crossings);
      },
      PATIENCE_MS,
    );
  });
});

requireSystem('docker')('calls of VS Code between versions of GnuPG', () => {
  describe.each(Object.entries(KEYS))('with an %s key', (_algorithm, algorithms) => {
    it.each(TABLE)(
      'a $client client of a $agent agent',
      async ({ client, agent, crossings }) => {
        const found: Record<string, Crossings> = {};
        for (const [name, script] of Object.entries(SCRIPTS)) {
          const onHost = agent === '2.4' ? useAgent24 : undefined;
          const { target, calls } = await countedHomes({ algorithms, ...(onHost ? { onHost } : {}) });
          const container = client === '2.4' ? await start24([target]) : undefined;
          const env = { GNUPGHOME: target.dir, HOME: dirname(target.dir) };
          const inside = (text: string) =>
            container
              ? container.execOk(['sh', '-c', text], { env })
              : runOk('sh', ['-c', text], { env: { ...target.env, ...env } });
          const secret = join(target.dir, 'secret');
          await inside(`echo secret | gpg --batch -r ada@example.org --encrypt > ${secret}`);
          const count = () => calls(() => inside(script.replace('/tmp/secret', secret)));
          found[name] = [await count(), await count()];
        }
        expect(found).toEqual(crossings);
      },
      PATIENCE_MS,
    );
  });
});
