import { Person } from '@gpg-bridge/test-support/cli';
import { CrossingRelay } from '@gpg-bridge/test-support/crossing-relay';
import type { GnupgHome } from '@gpg-bridge/test-support/gnupg-home';
import { requireRuntime } from '@gpg-bridge/test-support/requirements';
import { describe, expect, it } from 'vitest';

/** A bridge whose crossings are counted, to a home of the same machine. */
async function countedBridge(runtime: string, ...options: string[]) {
  const person = await Person.create();
  await person.home.addEncryptionKey(person.fingerprint);
  const rsa = await person.home.createKey('Rsa Test <rsa@example.org>', { algo: 'rsa2048', usage: 'sign' });
  await person.home.addEncryptionKey(rsa, 'rsa2048');
  const target = await person.localHome();
  const relay = await CrossingRelay.create(`GNUPGHOME=${target.dir} HOME=${target.env.HOME}`);
  await person.ok('up', '--exec', relay.enter, '--runtime', runtime, ...options);
  return { person, target, relay, leave: () => person.ok('down', '--exec', relay.enter) };
}

async function encrypted(target: GnupgHome, recipient: string): Promise<Buffer> {
  const { stdout } = await target.gpg(['--trust-model', 'always', '-r', recipient, '--encrypt'], {
    input: 'x',
  });
  return stdout;
}

/** What a client does, and how often it waits for the host: for the first time after `up`, and later. */
const CASES: readonly (readonly [name: string, args: readonly string[], first: number, later: number])[] = [
  ['a signature', ['--clear-sign'], 2, 2],
  ['a signature with an ECC key', ['-u', 'ada@example.org', '--clear-sign'], 2, 2],
  ['a signature with an RSA key', ['-u', 'rsa@example.org', '--clear-sign'], 2, 2],
  ['a decryption with an ECC key', ['ada@example.org'], 4, 3],
  ['a decryption with an RSA key', ['rsa@example.org'], 4, 3],
];

describe.each(['node', 'perl', 'native'] as const)('over %s', (runtime) => {
  requireRuntime(runtime)('alone', () => {
    it.each(CASES)('%s', async (_name, args, first, later) => {
      const { target, relay, leave } = await countedBridge(runtime);
      const isDecryption = !args[0]!.startsWith('-');
      const input = isDecryption ? await encrypted(target, args[0]!) : 'hello';
      const crossings = async () => {
        await target.gpgOk(isDecryption ? ['--decrypt'] : args, { input });
        return (await relay.ended()).map((session) => session.crossings);
      };
      expect(await crossings()).toEqual([first]);
      expect(await crossings()).toEqual([later]);
      await leave();
    });
  });
});

it('every answer crosses with --no-ahead, and the byte stream is the agent’s own', async () => {
  const { target, relay, leave } = await countedBridge('node', '--no-ahead');
  await target.gpgOk(['--clear-sign'], { input: 'hello' });
  const [session] = await relay.ended();
  expect(session!.crossings).toBeGreaterThan(10);
  await leave();
});
