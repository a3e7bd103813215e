import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readdirSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { dirname, join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Claim, claim, untilReleased } from './claim.ts';

/** A process that listens on a socket until it is killed. */
async function holder(path: string) {
  const code = `require('net').createServer().listen(${JSON.stringify(path)}, () => console.log('up'))`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await once(child.stdout, 'data');
  return {
    kill() {
      child.kill('SIGKILL');
      return exited;
    },
  };
}

async function held(path: string): Promise<Claim> {
  const got = await claim(path);
  if (!got) throw new Error('somebody else holds it');
  onTestFinished(() => got.release());
  return got;
}

describe('claim', () => {
  it('is had by one, and by the next when it is released', async () => {
    const path = join(await tempDir(), 's');
    const first = await held(path);
    expect(first.holds()).toBe(true);
    expect(await claim(path)).toBeUndefined();
    const released = untilReleased(path);
    first.release();
    await released;
    expect(first.holds()).toBe(false);
    expect((await held(path)).holds()).toBe(true);
  });

  it('leaves nothing behind', async () => {
    const dir = await tempDir();
    const path = join(dir, 's');
    const first = await held(path);
    await claim(path);
    expect(await readdir(dir)).toEqual(['s']);
    first.release();
    expect(await readdir(dir)).toEqual([]);
  });

  it('is for its owner alone', async () => {
    const path = join(await tempDir(), 's');
    await held(path);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('takes the place of a process that was killed', async () => {
    const path = join(await tempDir(), 's');
    const { kill } = await holder(path);
    expect(await claim(path)).toBeUndefined();
    await kill();
    expect(lstatSync(path).isSocket()).toBe(true);
    expect((await held(path)).holds()).toBe(true);
  });

  it('takes the place of a process that was killed while it took the place of another', async () => {
    const path = join(await tempDir(), 's');
    for (const dead of [path, `${path}.x`]) await (await holder(dead)).kill();
    expect((await held(path)).holds()).toBe(true);
  });

  it.each(['where nothing is', 'where a dead socket is'])('goes to one of thirty %s', async (place) => {
    const dir = await tempDir();
    const path = join(dir, 's');
    if (place === 'where a dead socket is') await (await holder(path)).kill();
    const claims = await Promise.all(Array.from({ length: 30 }, () => claim(path)));
    const got = claims.filter((one) => one !== undefined);
    onTestFinished(() => got.forEach((one) => void one.release()));
    expect(got).toHaveLength(1);
    expect(got[0]!.holds()).toBe(true);
    expect(readdirSync(dir)).toEqual(['s']);
  });

  it('goes from one to the next, and is never had by two', async () => {
    const path = join(await tempDir(), 's');
    await (await holder(path)).kill();
    let holders = 0;
    let turns = 0;
    const worker = async () => {
      for (;;) {
        const got = await claim(path);
        if (!got) {
          await untilReleased(path);
          continue;
        }
        expect(++holders).toBe(1);
        await new Promise(setImmediate);
        turns += 1;
        holders -= 1;
        got.release();
        return;
      }
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    expect(turns).toBe(20);
  });

  it('knows when its name leads elsewhere, and then leaves that alone', async () => {
    const dir = await tempDir();
    const path = join(dir, 's');
    const first = await held(path);
    await unlink(path);
    expect(first.holds()).toBe(false);
    const second = await held(path);
    first.release();
    expect(second.holds()).toBe(true);
  });

  it('hands over its connections, and ends them when it is released', async () => {
    const path = join(await tempDir(), 's');
    const got = await claim(path, (socket) => socket.write('hello'));
    const socket = net.connect(path);
    expect(String((await once(socket, 'data'))[0])).toBe('hello');
    const closed = once(socket, 'close');
    got!.release();
    await closed;
  });

  it('fails where there is no directory', async () => {
    await expect(claim(join(await tempDir(), 'none', 's'))).rejects.toThrow(/listen E/);
  });

  it('leaves alone what is no socket', async () => {
    const path = join(await tempDir(), 's');
    await writeFile(path, 'precious');
    await expect(claim(path)).rejects.toMatchObject({ code: 'SOCKET_PATH_FOREIGN_FILE' });
    expect(await readFile(path, 'utf8')).toBe('precious');
    expect(readdirSync(dirname(path))).toEqual(['s']);
  });

  it('is lost, without an error, when its directory is replaced by a file', async () => {
    const dir = join(await tempDir(), 'd');
    await mkdir(dir);
    const got = await held(join(dir, 's'));
    await rm(dir, { recursive: true });
    await writeFile(dir, '');
    expect(got.holds()).toBe(false);
    got.release();
  });
});
