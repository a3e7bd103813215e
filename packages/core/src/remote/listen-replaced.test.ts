import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { unlinkSync, writeFileSync } from 'node:fs';
import { lstat, readdir, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { SocketHolder } from '@gpg-bridge/test-support/socket-holder';
import {
  agentPid,
  answerOk,
  endProcess,
  GREETING,
  gnupgHome,
  greetingAt,
  listen,
  modeOf,
} from '@gpg-bridge/test-support/target-listener';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, onTestFinished, test } from 'vitest';
import { identityOf } from '../fs/socket-identity.ts';
import { killAgent } from '../gnupg/gpgconf.ts';

/** A client of the socket as it is now, past its greeting. */
async function connectedClient(path: string): Promise<Socket> {
  const client = createConnection(path);
  onTestFinished(() => void client.destroy());
  await once(client, 'data');
  return client;
}

async function stillAnswers(client: Socket): Promise<void> {
  client.write('NOP\n');
  expect(String((await once(client, 'data'))[0])).toBe('OK\n');
}

describe('our socket, replaced while we run', () => {
  test('by a real gpg-agent: that is stopped and the place taken back', async () => {
    const home = await gnupgHome();
    const path = await home.socket('agent-socket');
    const book = new LogBook();
    const stopOwnAgent = () => killAgent({ env: home.env });
    await listen(path, { log: book.log, stopOwnAgent });
    const client = await connectedClient(path);
    // The gap that an agent slips into: it would not replace a live socket, and we would be faster if
    // this did not keep the listener from running.
    unlinkSync(path);
    spawnSync('gpg-agent', ['--daemon'], { env: home.env, stdio: 'ignore', timeout: 60_000 });
    await book.said(/took its place back/);
    await expect.poll(() => greetingAt(path).catch(() => '')).toBe(GREETING);
    expect(book.text).toMatch(/stopped the target's own gpg-agent \(pid \d+\)/);
    expect(await modeOf(path)).toBe('600');
    await stillAnswers(client);
  });

  test('by an agent that puts itself in its place in one step', async () => {
    const [home, other] = [await gnupgHome(), await gnupgHome()];
    const path = await home.socket('agent-socket');
    const book = new LogBook();
    const stopOwnAgent = () => killAgent({ env: home.env });
    await listen(path, { log: book.log, stopOwnAgent });
    const client = await connectedClient(path);
    await other.launchAgent();
    const pid = await agentPid(other);
    onTestFinished(() => endProcess(pid));
    await rename(await other.socket('agent-socket'), path);
    // It answers without restrictions but calls itself by another path: not the target's own, so left.
    await book.said(/another forward listens there/);
    expect(await greetingAt(path)).toContain('Pleased to meet you');
    await stillAnswers(client);
    endProcess(pid);
    await unlink(path);
    await book.said(/took its place back/);
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('by nothing: removed or renamed, with everything that was connected going on', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const book = new LogBook();
    await listen(path, { log: book.log });
    const clients = [await connectedClient(path)];
    await unlink(path);
    await book.said(/took its place back/, 1);
    clients.push(await connectedClient(path));
    await rename(path, `${path}.bak`);
    await book.said(/took its place back/, 2);
    clients.push(await connectedClient(path));
    for (const client of clients) await stillAnswers(client);
    expect((await readdir(dirname(path))).sort()).toEqual(['S.gpg-agent', 'S.gpg-agent.bak']);
  });

  test('by a dead or hung socket: replaced in turn', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const book = new LogBook();
    await listen(path, { log: book.log, probeTimeoutMs: 100 });
    const holder = await SocketHolder.start(`${path}2`, 'silent');
    await rename(`${path}2`, path);
    await book.said(/took its place back/, 1);
    await rename(path, `${path}3`); // ours again; then the dead one
    await book.said(/took its place back/, 2);
    const second = await SocketHolder.start(`${path}4`, 'silent');
    await second.end('SIGKILL');
    await holder.end();
    await rename(`${path}4`, path);
    await book.said(/took its place back/, 3);
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('by a plain file: that stays untouched until it is gone', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const book = new LogBook();
    await listen(path, { log: book.log });
    await writeFile(`${path}.new`, 'precious');
    await rename(`${path}.new`, path);
    await book.said(/a regular file is there/);
    expect(await readFile(path, 'utf8')).toBe('precious');
    await unlink(path);
    await book.said(/took its place back/);
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('by another bridge that took it over: two that insist would never end, so it is left', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const book = new LogBook();
    await listen(path, { log: book.log, takeover: true });
    const client = await connectedClient(path);
    const second = await listen(path, {
      takeover: true,
      onConnection: (socket) => {
        socket.on('error', () => {}).on('data', () => socket.write('OK\n'));
        socket.write('OK the second\n');
      },
    });
    await book.said(/another forward listens there/);
    expect(await greetingAt(path)).toBe('OK the second');
    await stillAnswers(client);
    await second.close();
    await book.said(/took its place back/);
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('by forwards again and again: whose they are is asked when somebody wants to know, not each time', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const book = new LogBook();
    let asked = 0;
    const holderOf = async () => {
      asked++;
      return 'the bridge to elsewhere';
    };
    const listener = await listen(path, { log: book.log, holderOf });
    for (let count = 1; count <= 3; count++) {
      const forward = await listen(path, { takeover: true });
      await book.said(/listens there/, count);
      await forward.close();
      await book.said(/took its place back/, count);
    }
    expect(asked).toBe(0);
    await listen(path, { takeover: true });
    await book.said(/listens there/, 4);
    expect(await listener.whyElsewhere()).toContain('the bridge to elsewhere listens there');
    expect(asked).toBe(1);
  });

  test('with its whole directory: made again', async () => {
    const path = join(await tempDir(), 'h', 'S.gpg-agent');
    const book = new LogBook();
    await listen(path, { log: book.log });
    await rename(dirname(path), `${dirname(path)}.old`);
    await book.said(/took its place back/, 1);
    expect(await modeOf(dirname(path))).toBe('700');
    expect(await greetingAt(path)).toBe(GREETING);
    await rm(dirname(path), { recursive: true });
    await book.said(/took its place back/, 2);
    await expect.poll(() => greetingAt(path).catch(() => '')).toBe(GREETING);
  });

  test('is not mistaken: other files may come and go in the directory', async () => {
    const dir = await tempDir();
    const book = new LogBook();
    await listen(join(dir, 'S.gpg-agent'), { log: book.log });
    const before = await identityOf(join(dir, 'S.gpg-agent'));
    for (const name of ['a', 'b', 'c']) {
      await writeFile(join(dir, name), name);
      await unlink(join(dir, name));
    }
    expect(await identityOf(join(dir, 'S.gpg-agent'))).toEqual(before);
    expect(book.entries).toEqual([]);
  });
});

describe('close', () => {
  test('leaves what somebody else put in our place', async () => {
    const dir = await tempDir();
    const path = join(dir, 'S.gpg-agent');
    const listener = await listen(path);
    await writeFile(`${path}.new`, 'precious');
    await rename(`${path}.new`, path);
    await listener.close();
    expect(await readFile(path, 'utf8')).toBe('precious');
    expect(await readdir(dir)).toEqual(['S.gpg-agent']);
  });

  test('leaves another forward in our place, and it works', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const listener = await listen(path);
    await listen(path, { takeover: true });
    await listener.close();
    expect(await greetingAt(path)).toBe(GREETING);
  });

  test('ends a taking-back that is under way, and nothing of it stays', async () => {
    const dir = await tempDir();
    const path = join(dir, 'S.gpg-agent');
    const listener = await listen(path, { probeTimeoutMs: 60_000 });
    const asked = new Promise<void>((resolve) => {
      const hung = createServer((socket) => {
        socket.on('error', () => {});
        resolve();
      });
      onTestFinished(() => void hung.close());
      hung.listen(`${path}2`);
    });
    await expect.poll(() => identityOf(`${path}2`)).toBeDefined();
    await rename(`${path}2`, path);
    await asked;
    await listener.close();
    expect(await readdir(dir)).toEqual(['S.gpg-agent']);
    expect((await lstat(path)).isSocket()).toBe(true);
  });

  test('ends, when a file has taken the place of the directory', async () => {
    const log = new LogBook();
    const dir = join(await tempDir(), 'd');
    const listener = await listen(join(dir, 'S.gpg-agent'), { log: log.log });
    // The listener makes its directory again as soon as it is gone, so this may take some tries.
    for (let attempt = 2; ; attempt++) {
      await rename(dir, `${dir}${attempt}`);
      try {
        writeFileSync(dir, '', { flag: 'wx' });
        break;
      } catch (error) {
        expect(error).toMatchObject({ code: 'EEXIST' });
      }
    }
    await log.said(/something replaced the socket .* not a directory/);
    await listener.close();
    expect(await readFile(dir, 'utf8')).toBe('');
  });

  test('does not wait for open connections, and they go on', async () => {
    const path = join(await tempDir(), 'S.gpg-agent');
    const listener = await listen(path, { onConnection: answerOk });
    const client = await connectedClient(path);
    await listener.close();
    await stillAnswers(client);
    await expect(greetingAt(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
