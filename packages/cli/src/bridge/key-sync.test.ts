import { once } from 'node:events';
import { exportPublicKeys } from '@gpg-bridge/core/host/public-keys';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { gnupgHome } from '@gpg-bridge/test-support/target-listener';
import { expect, onTestFinished, test } from 'vitest';
import { KeySync } from './key-sync.ts';

/** A host's keyring and a target's, with what tells of changes there. */
async function keyrings() {
  const [host, target] = [await gnupgHome(), await gnupgHome()];
  const told = new EventTarget();
  const tell = (name: string) => void told.dispatchEvent(new Event(name));
  const start = async () => {
    const keySync = new KeySync({
      operations: new DirectOperations(target),
      filter: 'pairs',
      given: await exportPublicKeys('pairs', host),
      imported: Promise.resolve(undefined),
      env: host.env,
      onChange: async () => tell('change'),
      log: (words) => tell(words),
    });
    onTestFinished(() => keySync.close());
    return keySync;
  };
  return { host, target, told, start };
}

test('gives a target also the keys that came between the export and the watch', async () => {
  const { host, target, told, start } = await keyrings();
  const keySync = await start();
  const changed = once(told, 'change');
  const bob = await host.createKey('Bob <bob@example.org>');
  await keySync.watch();
  await changed;
  expect(await target.gpgOk(['--no-autostart', '--with-colons', '--list-keys'])).toContain(bob);
});

test('tells whoever mends what came by itself meanwhile, and nothing older', async () => {
  const { host, told, start } = await keyrings();
  await host.createKey('Ada <ada@example.org>');
  const keySync = await start();
  const since = performance.now();
  const words = 'public keys that were missing there: 1 new, 0 updated';
  const mended = once(told, words);
  keySync.doubt();
  await mended;
  await new Promise(setImmediate);
  expect(keySync.mayLackKeys).toBe(false);
  expect(await keySync.mend(since)).toEqual([words]);
  expect(await keySync.mend(performance.now())).toEqual([]);
});
