import { once } from 'node:events';
import { exportPublicKeys } from '@gpg-bridge/core/host/public-keys';
import { DirectOperations } from '@gpg-bridge/core/remote/direct-operations';
import { gnupgHome } from '@gpg-bridge/test-support/target-listener';
import { expect, onTestFinished, test } from 'vitest';
import { KeySync } from './key-sync.ts';

test('gives a target also the keys that came between the export and the watch', async () => {
  const host = await gnupgHome();
  const target = await gnupgHome();
  const changes = new EventTarget();
  const changed = once(changes, 'change');
  const keySync = new KeySync({
    operations: new DirectOperations(target),
    filter: 'pairs',
    given: await exportPublicKeys('pairs', host),
    imported: Promise.resolve(undefined),
    env: host.env,
    onChange: async () => void changes.dispatchEvent(new Event('change')),
    log: () => {},
  });
  onTestFinished(() => keySync.close());
  const bob = await host.createKey('Bob <bob@example.org>');
  await keySync.watch();
  await changed;
  expect(await target.gpgOk(['--no-autostart', '--with-colons', '--list-keys'])).toContain(bob);
});
