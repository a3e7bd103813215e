import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { ViewSocket } from '@gpg-bridge/core/io/view-socket';
import { takeViews } from '@gpg-bridge/core/io/view-source';
import { describe, expect, it, onTestFinished } from 'vitest';
import { spawnExec } from './spawn-exec.ts';

const run = (script: string) => spawnExec('/bin/sh', ['-c', script]);
const MEBIBYTE = 1024 * 1024;

describe('spawnExec', () => {
  it('passes bytes through a program, and tells its end', async () => {
    const { stdin, stdout, stderr, exited } = await run('cat; echo done >&2; exit 3');
    expect(stdout).toBeInstanceOf(ViewSocket);
    const said = once(stderr, 'data');
    let received = 0;
    takeViews(stdout, (view) => {
      received += view.length;
    });
    stdin.end(Buffer.alloc(3 * MEBIBYTE, 'x'));
    await once(stdout, 'end');
    expect(received).toBe(3 * MEBIBYTE);
    expect(String(await said)).toBe('done\n');
    expect(await exited).toEqual({ status: 3, signal: null });
  });

  it('hears the last words of a program that ends without having read all it was sent', async () => {
    const { stdin, stdout, stderr, exited } = await run('head -c 1 >/dev/null; echo words; exit 4');
    stderr.resume();
    const words: string[] = [];
    takeViews(stdout, (view) => words.push(String(view)));
    stdin.write(Buffer.alloc(MEBIBYTE));
    await once(stdout, 'end'); // rejects if there is an error first
    expect(words.join('')).toBe('words\n');
    expect(await exited).toEqual({ status: 4, signal: null });
  });

  it('hears that a program has closed its output, though it goes on', async () => {
    const exec = await run('exec >&-; read line');
    onTestFinished(() => exec.kill());
    await once(exec.stdout.resume(), 'end');
    exec.stdin.end();
    exec.stderr.resume();
    expect(await exec.exited).toEqual({ status: 1, signal: null });
  });

  it('lets go of a program that is killed, with output that nobody has read', async () => {
    const exec = await run('exec yes');
    await once(exec.stdout, 'readable');
    exec.stderr.resume();
    exec.kill();
    await once(exec.stdout, 'close');
    expect(await exec.exited).toMatchObject({ signal: 'SIGTERM' });
  });

  it('leaves nothing open where a program can’t be run', async () => {
    const open = () => readdirSync('/proc/self/fd').length;
    const before = open();
    await expect(spawnExec('/nowhere/at/all', [])).rejects.toMatchObject({ code: 'TARGET_NOT_FOUND' });
    await expect(spawnExec('/bin/true', ['x'.repeat(4 * MEBIBYTE)])).rejects.toThrow('E2BIG');
    while (open() > before) await new Promise((resolve) => setImmediate(resolve));
  });
});
