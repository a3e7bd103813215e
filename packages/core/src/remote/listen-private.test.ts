import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { bundledScript } from '@gpg-bridge/test-support/bundled-script';
import { LogBook } from '@gpg-bridge/test-support/log-book';
import { run } from '@gpg-bridge/test-support/process';
import { GREETING, greetingAt, listen, modeOf } from '@gpg-bridge/test-support/target-listener';
import { tempDir } from '@gpg-bridge/test-support/temp';
import { describe, expect, onTestFinished, test } from 'vitest';

const BINDS = 200;
const ROOT = process.getuid?.() === 0;
/** `nobody`, whom only root can become; without that the modes alone have to speak. */
const STRANGER = ROOT ? { uid: 65_534, gid: 65_534 } : {};

/**
 * Runs a program that repeats its work as fast as it can until its input ends and then prints what it
 * saw. It gets the path as its argument and signals with a first line that it is at work.
 */
async function observer(program: string, path: string, identity: { uid?: number; gid?: number } = {}) {
  const child = spawn(process.execPath, ['-e', program, path], {
    ...identity,
    cwd: '/',
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: string[] = [];
  let rest = '';
  child.stdout.on('data', (chunk: Buffer) => {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  });
  await once(child.stdout, 'data');
  return {
    async seen(): Promise<string[]> {
      const closed = once(child, 'close');
      child.stdin.end();
      await closed;
      return lines.slice(1);
    },
  };
}

/** Prints every mode that the socket and its directory were seen with. */
const MODE_WATCHER = `
const { lstatSync } = require('node:fs');
const { dirname } = require('node:path');
const path = process.argv[1];
const seen = new Set();
const look = (name, label) => {
  const facts = lstatSync(name, { throwIfNoEntry: false });
  if (facts) seen.add(label + ' ' + (facts.mode & 0o7777).toString(8));
};
let going = true;
process.stdin.on('end', () => { going = false; }).resume();
console.log('at work');
(function round() {
  for (let i = 0; i < 500; i++) { look(path, 'socket'); look(dirname(path), 'directory'); }
  if (going) setImmediate(round); else console.log([...seen].sort().join('\\n'));
})();
`;

/** Prints how its attempts to connect ended. */
const INTRUDER = `
const net = require('node:net');
const path = process.argv[1];
const seen = new Set();
let going = true;
process.stdin.on('end', () => { going = false; }).resume();
console.log('at work');
(function knock() {
  if (!going) return console.log([...seen].sort().join('\\n'));
  const socket = net.connect(path);
  socket.once('connect', () => { seen.add('connected'); socket.destroy(); setImmediate(knock); });
  socket.once('error', (error) => { seen.add(error.code); setImmediate(knock); });
})();
`;

describe('nobody else', () => {
  test('sees other modes than 0600 in 0700, at any instant of many starts and stops', async () => {
    const path = join(await tempDir(), 'h', 'S.gpg-agent');
    const watcher = await observer(MODE_WATCHER, path);
    for (let i = 0; i < BINDS; i++) await (await listen(path)).close();
    expect(await watcher.seen()).toEqual(['directory 700', 'socket 600']);
  });

  test('can connect, at any instant of many starts and stops', async () => {
    const dir = await tempDir();
    await chmod(dir, 0o755); // so that the socket's own directory is what keeps others out
    const path = join(dir, 'h', 'S.gpg-agent');
    const open = createServer((socket) => socket.destroy());
    onTestFinished(() => void open.close());
    open.listen({ path: join(dir, 'open'), readableAll: true, writableAll: true });
    await once(open, 'listening');

    const intruders = [
      await observer(INTRUDER, path, STRANGER),
      await observer(INTRUDER, join(dir, 'open'), STRANGER),
    ];
    for (let i = 0; i < BINDS; i++) await (await listen(path)).close();
    const [there, elsewhere] = await Promise.all(intruders.map((intruder) => intruder.seen()));
    expect(elsewhere).toContain('connected'); // it is able to, where it may
    if (ROOT) expect(there).not.toContain('connected');
  });
});

describe('the directory', () => {
  test('that is laxer than it should be is tightened, and said so', async () => {
    const dir = await tempDir();
    await chmod(dir, 0o775);
    const book = new LogBook();
    await listen(join(dir, 'S.gpg-agent'), { log: book.log });
    expect(await modeOf(dir)).toBe('700');
    expect(book.text).toContain(`${dir} had mode 0775`);
  });

  test('gets 0700 whatever the umask', async () => {
    const path = join(await tempDir(), 'a', 'b', 'S.gpg-agent');
    const program = await bundledScript(EXITS_BY_ITSELF);
    const done = await run('sh', ['-c', 'umask 0277; exec "$0" "$@"', process.execPath, program, path]);
    expect(done.stderr).toBe('');
    expect(await modeOf(join(path, '..'))).toBe('700');
  });

  test('may be a link to one', async () => {
    const dir = await tempDir();
    await mkdir(join(dir, 'real'), { mode: 0o700 });
    await symlink('real', join(dir, 'link'));
    await listen(join(dir, 'link', 'S.gpg-agent'));
    expect(await greetingAt(join(dir, 'real', 'S.gpg-agent'))).toBe(GREETING);
  });

  test.for([
    ['shared with everybody', '/tmp/S.gpg-bridge-test', /shared with other users/],
    ['a system directory', '/usr/S.gpg-bridge-test', ROOT ? /shared with other users/ : /belongs to user/],
    ['not a file system to write to', '/proc/self/new/S.gpg-agent', /./],
  ] as const)('that is %s is refused and left as it is', async ([, path, why]) => {
    const parent = path.startsWith('/proc') ? '/proc' : join(path, '..');
    const before = await modeOf(parent);
    await expect(listen(path)).rejects.toMatchObject({
      code: 'SOCKET_DIR_UNUSABLE',
      message: expect.stringMatching(why),
    });
    expect(await modeOf(parent)).toBe(before);
  });

  test('that is a file is refused', async () => {
    const dir = await tempDir();
    await writeFile(join(dir, 'file'), '');
    for (const path of ['file/S.gpg-agent', 'file/deeper/S.gpg-agent']) {
      await expect(listen(join(dir, path)), path).rejects.toMatchObject({
        code: 'SOCKET_DIR_UNUSABLE',
        message: expect.stringContaining('not a directory'),
      });
    }
  });

  test('that can not be written, or belongs to somebody else, is refused', async () => {
    const dir = await tempDir();
    await chmod(dir, 0o755);
    await mkdir(join(dir, 'others'), { mode: 0o755 });
    await mkdir(join(dir, 'closed'), { mode: 0o500 });
    const program = await bundledScript(EXITS_BY_ITSELF, dir);
    const child = (path: string) =>
      new Promise<string>((resolve) => {
        const running = spawn(process.execPath, [program, path], {
          ...STRANGER,
          cwd: '/',
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        let text = '';
        running.stderr.on('data', (chunk) => (text += chunk));
        running.once('close', () => resolve(text));
      });
    // To a stranger both belong to somebody else; to their owner only the one without a write bit is closed.
    expect(await child(join(dir, 'closed', 'S.gpg-agent'))).toContain('SOCKET_DIR_UNUSABLE');
    if (ROOT) expect(await child(join(dir, 'others', 'S.gpg-agent'))).toContain('SOCKET_DIR_UNUSABLE');
    expect(await modeOf(join(dir, 'others'))).toBe('755');
    expect(await readdir(join(dir, 'others'))).toEqual([]);
  });
});

/** Listens, serves a client, loses its place, takes it back, closes; and is not told to exit. */
const EXITS_BY_ITSELF = `
import { once } from 'node:events';
import { unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { listenInTarget } from '@gpg-bridge/core/remote/listen';

const path = process.argv[2]!;
async function main() {
  let tookBack = () => {};
  const back = new Promise<void>((resolve) => { tookBack = resolve; });
  const listener = await listenInTarget({
    path,
    kind: 'gpg-agent',
    onConnection: (socket) => socket.end('OK\\n'),
    stopOwnAgent: async () => {},
    log: (message) => { if (/took its place back/.test(message)) tookBack(); },
  });
  const client = connect(path).resume();
  await once(client, 'close');
  unlinkSync(path);
  await back;
  await listener.close();
  console.log('closed');
}
main().catch((error) => { console.error(error.code, error.message); process.exitCode = 1; });
`;

test('close leaves no handle: the process exits by itself, and no file', async () => {
  const dir = await tempDir();
  const program = await bundledScript(EXITS_BY_ITSELF);
  const done = await run(process.execPath, [program, join(dir, 'S.gpg-agent')]);
  expect(done).toMatchObject({ status: 0, stderr: '' });
  expect(done.stdout.toString()).toBe('closed\n');
  expect(await readdir(dir)).toEqual([]);
});
