import { EventEmitter, once } from 'node:events';
import { appendFile, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { watchKeyring } from './keyring-watch.ts';

/** A watched home, and the changes that it told of. */
async function watchedHome() {
  const home = await tempDir();
  await writeFile(join(home, 'pubring.kbx'), 'a');
  const told = new EventEmitter();
  let count = 0;
  const watch = watchKeyring(
    home,
    () => {
      count++;
      told.emit('change');
    },
    { settledMs: 20 },
  );
  onTestFinished(() => watch.close());
  return { home, count: () => count, change: () => once(told, 'change') };
}

describe('watchKeyring', () => {
  it('tells of a keyring that was replaced', async () => {
    const { home, change } = await watchedHome();
    const changed = change();
    await writeFile(join(home, 'pubring.kbx.tmp'), 'ab');
    await rename(join(home, 'pubring.kbx.tmp'), join(home, 'pubring.kbx'));
    await changed;
  });

  it('tells of a private key, and of a database, in directories that were not there', async () => {
    const { home, change } = await watchedHome();
    const first = change();
    await mkdir(join(home, 'private-keys-v1.d'));
    await first;
    const second = change();
    await writeFile(join(home, 'private-keys-v1.d/0.key'), '');
    await second;
    await mkdir(join(home, 'public-keys.d'));
    const third = change();
    await writeFile(join(home, 'public-keys.d/pubring.db'), 'a');
    await third;
    const fourth = change();
    await appendFile(join(home, 'public-keys.d/pubring.db'), 'b');
    await fourth;
  });

  it('says nothing of other files', async () => {
    const { home, count, change } = await watchedHome();
    await writeFile(join(home, 'trustdb.gpg'), 'a');
    await writeFile(join(home, '.#lk0x1.host.1'), '');
    const changed = change();
    await writeFile(join(home, 'pubring.kbx'), 'abc');
    await changed;
    expect(count()).toBe(1);
  });
});
