import { dirname } from 'node:path';
import { Person } from '@gpg-bridge/test-support/cli';
import { CrossingRelay } from '@gpg-bridge/test-support/crossing-relay';
import { sharedEngine } from '@gpg-bridge/test-support/engine/shared';
import { requireSystem } from '@gpg-bridge/test-support/requirements';
import { expect, it, onTestFinished } from 'vitest';

/** How often a client waits for the host: the first time after `up`, and later. */
interface Crossings {
  first: number;
  later: number;
}

/** GnuPG of the client and of the agent, and what each of them makes it cross. */
const PAIRS: readonly { client: '2.2' | '2.4'; agent: '2.2' | '2.4'; sign: Crossings; decrypt: Crossings }[] =
  [
    { client: '2.2', agent: '2.4', sign: { first: 3, later: 2 }, decrypt: { first: 4, later: 3 } },
    { client: '2.4', agent: '2.2', sign: { first: 2, later: 2 }, decrypt: { first: 3, later: 3 } },
    { client: '2.4', agent: '2.4', sign: { first: 3, later: 2 }, decrypt: { first: 4, later: 3 } },
  ];

requireSystem('docker')('crossings between versions of GnuPG', () => {
  it.each(PAIRS)('a $client client of a $agent agent', async ({ client, agent, sign, decrypt }) => {
    const docker = await sharedEngine('docker');
    const person = await Person.create();
    const { home } = person;
    await home.addEncryptionKey(person.fingerprint);
    if (agent === '2.4') {
      await home.killAgent();
      const volume = `--volume=${dirname(home.dir)}:${dirname(home.dir)}`;
      const host = await docker.startContainer({
        image: 'trixie',
        env: { GNUPGHOME: home.dir },
        args: [volume],
      });
      onTestFinished(() => host.remove());
      await host.execOk(['gpg-agent', '--daemon']);
    }
    const container = await docker.startContainer({ image: client === '2.4' ? 'trixie' : 'git' });
    onTestFinished(() => container.remove());
    const { env } = docker;
    const relay = await CrossingRelay.create(
      `DOCKER_HOST=${env.DOCKER_HOST} docker exec -i ${container.name}`,
    );
    const up = () => person.ok('up', '--exec', relay.enter, '--no-ssh');
    const down = () => person.ok('down', '--exec', relay.enter);
    await up();
    const inside = (script: string) => container.execOk(['sh', '-c', script]);
    await inside('echo secret | gpg --batch -r ada@example.org --encrypt > /tmp/secret');
    const crossings = async (script: string) => {
      await inside(script);
      return (await relay.ended()).at(-1)!.crossings;
    };
    const [signing, decrypting] = ['echo x | gpg --batch --clear-sign', 'gpg --batch --decrypt /tmp/secret'];
    const both = async (script: string) => ({
      first: await crossings(script),
      later: await crossings(script),
    });
    const signed = await both(signing);
    await down();
    await up();
    const decrypted = await both(decrypting);
    await down();
    expect({ sign: signed, decrypt: decrypted }).toEqual({ sign, decrypt });
  });
});
