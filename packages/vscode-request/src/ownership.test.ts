import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findOwner } from './owner-socket.ts';
import { Ownership, type OwnershipOptions, type Role } from './ownership.ts';

/** A promise that the test settles itself. */
function deferred<T = void>() {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** One window: writes down its roles and whether it holds the gpg socket. */
class FakeWindow {
  readonly ownership: Ownership;
  readonly roles: Role['is'][] = [];
  role: Role = { is: 'out' };
  holds = false;
  allowed = true;
  /** What the owner said last. */
  heard: unknown;
  /** What the host does with a ping. */
  ping: () => Promise<unknown> = async () => {};
  readonly running: Promise<void>;
  #changed = deferred();

  constructor(
    readonly name: string,
    path: string,
    readonly events: string[] = [],
    options: Partial<OwnershipOptions> = {},
  ) {
    this.ownership = new Ownership({
      path,
      info: { version: '0.1.0', pid: process.pid, window: name },
      ping: () => this.ping(),
      take: async () => {
        events.push(`${name} takes`);
        this.holds = true;
      },
      letGo: async () => {
        events.push(`${name} lets go`);
        this.holds = false;
      },
      told: () => ({ from: name }),
      onTold: (told) => {
        this.heard = told;
        this.#changed.resolve();
        this.#changed = deferred();
      },
      isAllowed: () => this.allowed,
      onRole: (role) => {
        this.role = role;
        this.roles.push(role.is);
        this.#changed.resolve();
        this.#changed = deferred();
      },
      pingEveryMs: 20,
      pingDeadlineMs: 30_000,
      infoTimeoutMs: 30_000,
      ...options,
    });
    this.running = this.ownership.run();
    this.running.catch(() => {});
    onTestFinished(() => this.ownership.stop());
  }

  async until(role: Role['is']): Promise<void> {
    while (this.role.is !== role) await this.#changed.promise;
  }

  async hears(told: unknown): Promise<void> {
    while (JSON.stringify(this.heard) !== JSON.stringify(told)) await this.#changed.promise;
  }
}

async function setUp() {
  const dir = await tempDir();
  return { dir, path: join(dir, 'S.gpg-bridge') };
}

describe('Ownership', () => {
  it('takes the socket when nobody has it, privately, and leaves nothing', async () => {
    const { dir, path } = await setUp();
    const one = new FakeWindow('one', path);
    await one.until('owner');
    expect(one.holds).toBe(true);
    expect((await lstat(path)).mode & 0o777).toBe(0o600);
    expect((await lstat(dir)).mode & 0o777).toBe(0o700);
    await one.ownership.stop();
    expect(one.holds).toBe(false);
    expect(one.role.is).toBe('out');
    expect(await readdir(dir)).toEqual([]);
  });

  it('lets the next window share, who learns whose socket it is', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path);
    await one.until('owner');
    const two = new FakeWindow('two', path);
    await two.until('sharing');
    expect(two.role).toEqual({
      is: 'sharing',
      owner: { version: '0.1.0', pid: process.pid, window: 'one' },
    });
    expect(two.holds).toBe(false);
  });

  it('tells those who share what is so, at once and when it changes', async () => {
    const { path } = await setUp();
    let sessions = 0;
    const one = new FakeWindow('one', path, [], { told: () => ({ sessions }) });
    await one.until('owner');
    const two = new FakeWindow('two', path);
    await two.hears({ sessions: 0 });
    sessions = 1;
    one.ownership.tell();
    await two.hears({ sessions: 1 });
  });

  it('hands on that an operation is to be broken off', async () => {
    const { path } = await setUp();
    const cancelled = deferred<string>();
    const one = new FakeWindow('one', path, [], { onCancel: cancelled.resolve });
    await one.until('owner');
    const two = new FakeWindow('two', path);
    await two.until('sharing');
    two.ownership.askToCancel('s1');
    expect(await cancelled.promise).toBe('s1');
  });

  it('lets a window that may use the keys have the socket of one that may not', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path);
    one.allowed = false;
    await one.until('owner');
    const two = new FakeWindow('two', path);
    await two.until('sharing');
    const three = new FakeWindow('three', path);
    three.allowed = false;
    await three.until('sharing');
    two.ownership.askToLetGo();
    await two.until('owner');
    await one.until('sharing');
    expect(three.holds).toBe(false);
    // One that may use them keeps it.
    one.ownership.askToLetGo();
    await one.hears({ from: 'two' });
    expect(two.holds).toBe(true);
  });

  it('says so when its path is too long, and when its directory can not be written', async () => {
    const { dir } = await setUp();
    const long = new FakeWindow('one', join(dir, 'x'.repeat(120)));
    await expect(long.running).rejects.toThrow(expect.objectContaining({ code: 'SOCKET_PATH_TOO_LONG' }));
    await writeFile(join(dir, 'file'), '');
    const none = new FakeWindow('one', join(dir, 'file', 'S.gpg-bridge'));
    await expect(none.running).rejects.toThrow(expect.objectContaining({ code: 'SOCKET_DIR_UNUSABLE' }));
  });

  it('hands over to one of several when the owner stops, after it let go', async () => {
    const { path } = await setUp();
    const events: string[] = [];
    const one = new FakeWindow('one', path, events);
    await one.until('owner');
    const others = ['two', 'three', 'four', 'five'].map((name) => new FakeWindow(name, path, events));
    await Promise.all(others.map((window) => window.until('sharing')));
    await one.ownership.stop();
    await Promise.race(others.map((window) => window.until('owner')));
    const next = others.find((window) => window.holds)!;
    expect(events).toEqual(['one takes', 'one lets go', `${next.name} takes`]);
    await Promise.all(others.filter((window) => window !== next).map((window) => window.until('sharing')));
    expect(others.filter((window) => window.holds)).toEqual([next]);
  });

  it('makes one owner of many windows that start at once', async () => {
    const { path } = await setUp();
    const windows = Array.from({ length: 10 }, (_, index) => new FakeWindow(`w${index}`, path));
    await Promise.race(windows.map((window) => window.until('owner')));
    const owner = windows.find((window) => window.holds)!;
    await Promise.all(windows.filter((window) => window !== owner).map((window) => window.until('sharing')));
    expect(windows.filter((window) => window.holds)).toEqual([owner]);
  });

  it('takes over from a process that was killed', async () => {
    const { path } = await setUp();
    const script = `require('net').createServer(s=>s.write('{"version":"0","pid":1,"window":"crashed"}\\n')).listen(process.argv[1],()=>console.log('up'))`;
    const child = spawn(process.execPath, ['-e', script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    const ended = once(child, 'exit').then(([code, signal]) => {
      throw new Error(`the other owner ended with ${code ?? signal}`);
    });
    ended.catch(() => {}); // later on it is meant to
    await Promise.race([once(child.stdout, 'data'), ended]);
    const one = new FakeWindow('one', path);
    await Promise.race([one.until('sharing'), ended]);
    child.kill('SIGKILL');
    await one.until('owner');
    expect(one.holds).toBe(true);
    expect(await findOwner(path, 2_000)).toMatchObject({ found: 'owner', info: { window: 'one' } });
  });

  it('replaces an owner that does not say who it is', async () => {
    const { path } = await setUp();
    const hung = createServer(() => {});
    hung.listen(path);
    await once(hung, 'listening');
    onTestFinished(() => void hung.close());
    const one = new FakeWindow('one', path, [], { infoTimeoutMs: 50 });
    await one.until('owner');
  });

  it.each([
    ['something else', 'HTTP/1.1 400\n'],
    ['a line without an end', 'x'.repeat(5_000)],
  ])('takes %s for no owner', async (_name, answer) => {
    const { path } = await setUp();
    const server = createServer((socket) => {
      socket.on('error', () => {}).write(answer);
    });
    server.listen(path);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    expect(await findOwner(path, 2_000)).toMatchObject({ found: 'gone' });
  });

  it('lets go when the host stops answering, and takes it again when it does', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path, [], { pingDeadlineMs: 50 });
    await one.until('owner');
    const back = deferred();
    one.ping = () => back.promise;
    await one.until('cut-off');
    back.resolve();
    one.ping = async () => {};
    await one.until('owner');
    expect(one.roles).toEqual(['owner', 'cut-off', 'owner']);
  });

  it('gives a dead owner’s place to a window whose host answers', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path, [], { pingDeadlineMs: 50 });
    await one.until('owner');
    const two = new FakeWindow('two', path);
    await two.until('sharing');
    const back = deferred();
    one.ping = () => back.promise;
    await two.until('owner');
    expect(one.holds).toBe(false);
    one.ping = async () => {};
    back.resolve();
    await one.until('sharing');
    expect(two.holds).toBe(true);
  });

  it('does not take the socket while its own host is silent', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path);
    await one.until('owner');
    const two = new FakeWindow('two', path, [], { pingDeadlineMs: 50 });
    await two.until('sharing');
    const back = deferred();
    two.ping = () => back.promise;
    await one.ownership.stop();
    await two.until('cut-off');
    expect(await findOwner(path, 2_000)).toEqual({ found: 'nobody' });
    back.resolve();
    two.ping = async () => {};
    await two.until('owner');
  });

  it('counts a ping that is refused as no answer', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path);
    await one.until('owner');
    one.ping = () => Promise.reject(new Error("command '…' not found"));
    await one.until('cut-off');
    one.ping = async () => {};
    await one.until('owner');
  });

  it('steps back when another window has its place', async () => {
    const { dir, path } = await setUp();
    const one = new FakeWindow('one', path);
    await one.until('owner');
    const usurper = createServer((socket) => socket.write('{"version":"0","pid":2,"window":"usurper"}\n'));
    usurper.listen(join(dir, 'u'));
    await once(usurper, 'listening');
    onTestFinished(() => void usurper.close());
    await rename(join(dir, 'u'), path);
    await one.until('sharing');
    expect(one.holds).toBe(false);
    expect(await readdir(dir)).toEqual(['S.gpg-bridge']);
  });

  it('ends with the error when the gpg socket can not be taken, and frees its place', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path, [], {
      take: () => Promise.reject(new Error('held by a forward')),
    });
    await expect(one.running).rejects.toThrow('held by a forward');
    expect(one.roles).toEqual(['out']);
    expect(await findOwner(path, 2_000)).toEqual({ found: 'nobody' });
  });

  it('can be stopped while it waits for a host that does not answer', async () => {
    const { path } = await setUp();
    const one = new FakeWindow('one', path, [], { pingDeadlineMs: 30 });
    one.ping = () => new Promise(() => {});
    await one.until('cut-off');
    await one.ownership.stop();
    expect(one.role.is).toBe('out');
  });

  it('does not touch a file that is no socket', async () => {
    const { path } = await setUp();
    await writeFile(path, 'mine');
    const one = new FakeWindow('one', path);
    await expect(one.running).rejects.toThrow(expect.objectContaining({ code: 'SOCKET_PATH_FOREIGN_FILE' }));
    expect(await readFile(path, 'utf8')).toBe('mine');
  });
});
