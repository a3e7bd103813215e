import { dirname } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { CrossingRelay } from '@gpg-bridge/test-support/crossing-relay';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
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

/** Somebody with one key, and an agent of this version. */
async function host(agent: Version, [sign, encrypt]: readonly [string, string]): Promise<Person> {
  const person = await Person.create({ key: false });
  const { home } = person;
  const key = await home.createKey('Ada Test <ada@example.org>', { algo: sign, usage: 'sign' });
  await home.addEncryptionKey(key, encrypt);
  if (agent === '2.2') return person;
  await home.killAgent();
  const docker = await sharedEngine('docker');
  const volume = `--volume=${dirname(home.dir)}:${dirname(home.dir)}`;
  const env = { GNUPGHOME: home.dir };
  const container = await docker.startContainer({ image: 'trixie', env, args: [volume] });
  onTestFinished(() => container.remove());
  await container.execOk(['gpg-agent', '--daemon']);
  return person;
}

requireSystem('docker')('crossings between versions of GnuPG', () => {
  describe.each(Object.entries(KEYS))('with an %s key', (_algorithm, algorithms) => {
    it.each(TABLE)('a $client client of a $agent agent', async ({ client, agent, crossings }) => {
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
    });
  });
});
