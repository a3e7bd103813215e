import { link, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, onTestFinished, test } from 'vitest';
import { bootId, identityOf, ofKernel, sameIdentity, tellableIdentity } from './socket-identity.ts';

test('one socket is the same under all its names, and another one is not', async () => {
  const dir = await tempDir();
  const path = join(dir, 'S');
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
  await link(path, join(dir, 'hard'));
  await symlink(path, join(dir, 'soft'));
  await writeFile(join(dir, 'other'), '');

  const identity = (await identityOf(path))!;
  expect(identity.dev).toMatch(/^\d+$/);
  expect(identity.ino).toMatch(/^\d+$/);
  for (const [name, same] of Object.entries({ hard: true, soft: true, other: false })) {
    expect(sameIdentity(identity, (await identityOf(join(dir, name)))!), name).toBe(same);
  }
  expect(sameIdentity(identity, { ...identity, dev: `${identity.dev}0` })).toBe(false);
  expect(await identityOf(join(dir, 'nothing'))).toBeUndefined();
});

test('an identity of another kernel is not taken for a file of this one', async () => {
  const dir = await tempDir();
  const told = (await tellableIdentity(dir))!;
  const elsewhere = { ...told, boot: 'another-boot' };
  const unknown = { dev: told.dev, ino: told.ino };
  expect(ofKernel(bootId(), [told, elsewhere, unknown])).toEqual([told, unknown]);
  expect(ofKernel('another-boot', [told, elsewhere, unknown])).toEqual([elsewhere, unknown]);
  expect(await tellableIdentity(join(dir, 'nothing'))).toBeUndefined();
});

test('a kernel without a name for itself may have any file that was told', () => {
  const told = [
    { dev: '1', ino: '2', boot: 'a' },
    { dev: '1', ino: '3', boot: 'b' },
    { dev: '1', ino: '4' },
  ];
  expect(ofKernel(undefined, told)).toEqual(told);
  expect(ofKernel('a', told)).toEqual([told[0], told[2]]);
});
