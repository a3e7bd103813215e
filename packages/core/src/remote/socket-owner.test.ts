import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import { listen } from '@gpg-bridge/test-support/target-listener';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { expect, test } from 'vitest';
import { temporaryPath } from '../fs/temporary-name.ts';
import { DirectOperations } from './direct-operations.ts';
import { socketOwners } from './socket-owner.ts';

/** Inode numbers as the kernel gives them to sockets: the newer the higher. */
const [OLD, NEW, OTHER] = [101, 202, 303];

/** A /proc with three processes: two that listen on the path, one after the other, and one elsewhere. */
async function procDir(path: string, newest = 'new one'): Promise<string> {
  const dir = await tempDir();
  const line = (flags: string, inode: number, name: string) =>
    `0000000000000000: 00000002 00000000 ${flags} 0001 01 ${String(inode).padStart(5)} ${name}\n`;
  await mkdir(join(dir, 'net'));
  await writeFile(
    join(dir, 'net/unix'),
    `Num       RefCount Protocol Flags    Type St Inode Path\n${line('00010000', OLD, path)}${line('00000000', 404, path)}${line('00010000', NEW, path)}${line('00010000', OTHER, `${path}.extra`)}`,
  );
  const processes = {
    11: ['old', OLD],
    22: [newest, NEW],
    33: ['other', OTHER],
    44: ['client', 404],
  } as const;
  for (const [pid, [program, inode]] of Object.entries(processes)) {
    await mkdir(join(dir, pid, 'fd'), { recursive: true });
    await symlink('/dev/null', join(dir, pid, 'fd/0'));
    await symlink(`socket:[${inode}]`, join(dir, pid, 'fd/7'));
    await writeFile(join(dir, pid, 'comm'), `${program}\n`);
    // A name may have anything in it, also what looks like another process.
    await symlink(`/opt/x y/bin/nodejs\n${NEW} 55 another`, join(dir, pid, 'exe'));
  }
  return dir;
}

test('finds who listens under a name, the newest first', async () => {
  const path = join(await tempDir(), 'S.gpg-agent');
  expect(await socketOwners(new DirectOperations(), path, await procDir(path))).toEqual([
    { pid: 22, program: 'new one' },
    { pid: 11, program: 'old' },
  ]);
});

test.each(['MainThread', 'node-MainThread'])(
  'calls a program by its file where its process is a %s',
  async (name) => {
    const path = join(await tempDir(), 'S.gpg-agent');
    expect(await socketOwners(new DirectOperations(), path, await procDir(path, name))).toEqual([
      { pid: 22, program: 'nodejs' },
      { pid: 11, program: 'old' },
    ]);
  },
);

test('finds a real listener, also through a link to its directory, on a system that can tell', async () => {
  const dir = await tempDir();
  await mkdir(join(dir, 'real'));
  await symlink('real', join(dir, 'link'));
  const holder = await SocketHolder.start(join(dir, 'real', 's'), 'silent');
  const expected = process.platform === 'linux' ? [holder.pid] : [];
  for (const path of ['real/s', 'link/s']) {
    expect((await socketOwners(new DirectOperations(), join(dir, path))).map(({ pid }) => pid)).toEqual(
      expected,
    );
  }
});

test('finds a listener by the name it was bound under, and leaves out the process that asks', async () => {
  const path = join(await tempDir(), 'S.gpg-agent');
  const bound = temporaryPath(path);
  const holder = await SocketHolder.start(bound, 'silent');
  await rename(bound, path);
  await listen(path, { takeover: true, probeTimeoutMs: 100 });
  const expected = process.platform === 'linux' ? [holder.pid] : [];
  expect((await socketOwners(new DirectOperations(), path)).map(({ pid }) => pid)).toEqual(expected);
});

test('says nothing where there is nothing to be seen', async () => {
  const dir = await tempDir();
  expect(await socketOwners(new DirectOperations(), join(dir, 'S.gpg-agent'))).toEqual([]);
  expect(await socketOwners(new DirectOperations(), join(dir, 'missing', 'S.gpg-agent'))).toEqual([]);
  expect(await socketOwners(new DirectOperations(), join(dir, 'S.gpg-agent'), join(dir, 'no-proc'))).toEqual(
    [],
  );
});
